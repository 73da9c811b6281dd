// RUN: dtc-opt --dtc-interpret %s | FileCheck %s
// Made by draw.py: 1 where the op agrees with PyTorch.

// CHECK: result 0: tensor<f32> 1{{$}}
// CHECK: result 1: tensor<f32> 1{{$}}
// CHECK: result 2: tensor<f32> 1{{$}}
// CHECK: result 3: tensor<f32> 1{{$}}
// CHECK: result 4: tensor<f32> 1{{$}}
// CHECK: result 5: tensor<f32> 1{{$}}
func.func @main() -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %sgd = func.call @sgd() : () -> tensor<f32>
  %sgd_momentum = func.call @sgd_momentum() : () -> tensor<f32>
  %sgd_nesterov = func.call @sgd_nesterov() : () -> tensor<f32>
  %adam = func.call @adam() : () -> tensor<f32>
  %adamw = func.call @adamw() : () -> tensor<f32>
  %adamw_without_decay = func.call @adamw_without_decay() : () -> tensor<f32>
  return %sgd, %sgd_momentum, %sgd_nesterov, %adam, %adamw, %adamw_without_decay : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

func.func @sgd() -> tensor<f32> {
  %p0 = arith.constant dense<[-0.016900776005030826, 0.603097148374478, -1.251935947859235, 0.716868959283774, -1.0472337736764512]> : tensor<5xf64>
  %m0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %g0 = arith.constant dense<[-0.015029331196165749, 0.57626232595122, 1.2493183292057228, -0.4838691874475301, -0.5027363506427067]> : tensor<5xf64>
  %g1 = arith.constant dense<[-1.5621041032433574, -0.4051402209636255, -0.1814608294751744, 0.4839952292482967, 1.094814378617229]> : tensor<5xf64>
  %g2 = arith.constant dense<[0.23464524583801524, -1.1537332373292506, -0.17208900039602856, 0.14134901365743427, -1.1248003750199607]> : tensor<5xf64>
  %lr = arith.constant dense<0.01> : tensor<f64>
  %clip = arith.constant dense<0.5> : tensor<f64>
  %p1 = dtc.sgd_update %p0, %g0, %lr, %clip {momentum = 0.0 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> tensor<5xf64>
  %p2 = dtc.sgd_update %p1, %g1, %lr, %clip {momentum = 0.0 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> tensor<5xf64>
  %r0 = dtc.sgd_update %p2, %g2, %lr, %clip {momentum = 0.0 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> tensor<5xf64>
  %e0 = arith.constant dense<[-0.010145644158116958, 0.6062064553202539, -1.2526511574356847, 0.7140107107222583, -1.0414311520522135]> : tensor<5xf64>
  %d0 = arith.subf %r0, %e0 : tensor<5xf64>
  %a0 = math.absf %d0 : tensor<5xf64>
  %t0 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c0 = arith.cmpf olt, %a0, %t0 : tensor<5xf64>
  %f0 = arith.uitofp %c0 : tensor<5xi1> to tensor<5xf32>
  %ok0 = dtc.reduce min %f0 [0] : tensor<5xf32> -> tensor<f32>
  return %ok0 : tensor<f32>
}

func.func @sgd_momentum() -> tensor<f32> {
  %p0 = arith.constant dense<[0.24906270529262997, 0.05309716505402924, -1.2017763064947402, 0.10071060847826836, 0.6547436652160213]> : tensor<5xf64>
  %m0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %g0 = arith.constant dense<[1.8601339965716515, -1.5688426999856926, 1.1589412761048394, -1.4327087126397524, -1.6941404787274057]> : tensor<5xf64>
  %g1 = arith.constant dense<[-1.3401951548817952, -0.7687459630573035, 0.5763684809803442, 0.97271350943962, -0.2593576560383183]> : tensor<5xf64>
  %g2 = arith.constant dense<[1.3418036542310485, 0.9544996717859817, -0.9863457319208104, -0.7354784306737879, -0.12193418830476581]> : tensor<5xf64>
  %lr = arith.constant dense<0.01> : tensor<f64>
  %clip = arith.constant dense<0.5> : tensor<f64>
  %p1, %m1 = dtc.sgd_update %p0, %g0, %m0, %lr, %clip {momentum = 0.9 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>)
  %p2, %m2 = dtc.sgd_update %p1, %g1, %m1, %lr, %clip {momentum = 0.9 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>)
  %r0, %r1 = dtc.sgd_update %p2, %g2, %m2, %lr, %clip {momentum = 0.9 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>)
  %e0 = arith.constant dense<[0.22851331108402742, 0.07655430774939033, -1.211262639008785, 0.11397357141042716, 0.6770693905429794]> : tensor<5xf64>
  %d0 = arith.subf %r0, %e0 : tensor<5xf64>
  %a0 = math.absf %d0 : tensor<5xf64>
  %t0 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c0 = arith.cmpf olt, %a0, %t0 : tensor<5xf64>
  %f0 = arith.uitofp %c0 : tensor<5xi1> to tensor<5xf32>
  %ok0 = dtc.reduce min %f0 [0] : tensor<5xf32> -> tensor<f32>
  %e1 = arith.constant dense<[0.8866364902920362, -0.4871180125202046, -0.09157077949442649, -0.4814921306820954, -0.6841175086711012]> : tensor<5xf64>
  %d1 = arith.subf %r1, %e1 : tensor<5xf64>
  %a1 = math.absf %d1 : tensor<5xf64>
  %t1 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c1 = arith.cmpf olt, %a1, %t1 : tensor<5xf64>
  %f1 = arith.uitofp %c1 : tensor<5xi1> to tensor<5xf32>
  %ok1 = dtc.reduce min %f1 [0] : tensor<5xf32> -> tensor<f32>
  %both1 = arith.minimumf %ok0, %ok1 : tensor<f32>
  return %both1 : tensor<f32>
}

func.func @sgd_nesterov() -> tensor<f32> {
  %p0 = arith.constant dense<[-1.7711820664028393, 0.19616084400619258, -1.3029259299806837, -0.9171241919588007, 0.3231428020529936]> : tensor<5xf64>
  %m0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %g0 = arith.constant dense<[0.28046738101019913, 0.3098325172392189, -1.5336640766668224, 0.34498310808648536, -0.8329944740870346]> : tensor<5xf64>
  %g1 = arith.constant dense<[0.9326068832543559, -0.8216770818730323, -1.4312776010556743, -2.5865726367039126, -0.9870052404204529]> : tensor<5xf64>
  %g2 = arith.constant dense<[0.2820412816003706, -0.94667439486908, 0.6616982993902449, -0.28980809599033996, -0.6451524170058668]> : tensor<5xf64>
  %lr = arith.constant dense<0.01> : tensor<f64>
  %clip = arith.constant dense<0.5> : tensor<f64>
  %p1, %m1 = dtc.sgd_update %p0, %g0, %m0, %lr, %clip {momentum = 0.9 : f64, weightDecay = 0.0 : f64, nesterov} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>)
  %p2, %m2 = dtc.sgd_update %p1, %g1, %m1, %lr, %clip {momentum = 0.9 : f64, weightDecay = 0.0 : f64, nesterov} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>)
  %r0, %r1 = dtc.sgd_update %p2, %g2, %m2, %lr, %clip {momentum = 0.9 : f64, weightDecay = 0.0 : f64, nesterov} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>)
  %e0 = arith.constant dense<[-1.7913209184626098, 0.21096040508290007, -1.2634468985323006, -0.8852549403631016, 0.35696901100417305]> : tensor<5xf64>
  %d0 = arith.subf %r0, %e0 : tensor<5xf64>
  %a0 = math.absf %d0 : tensor<5xf64>
  %t0 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c0 = arith.cmpf olt, %a0, %t0 : tensor<5xf64>
  %f0 = arith.uitofp %c0 : tensor<5xi1> to tensor<5xf32>
  %ok0 = dtc.reduce min %f0 [0] : tensor<5xf32> -> tensor<f32>
  %e1 = arith.constant dense<[0.6742830275737761, -0.7176097147955209, -0.9343597218299942, -1.1691435757369042, -1.1040913286973864]> : tensor<5xf64>
  %d1 = arith.subf %r1, %e1 : tensor<5xf64>
  %a1 = math.absf %d1 : tensor<5xf64>
  %t1 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c1 = arith.cmpf olt, %a1, %t1 : tensor<5xf64>
  %f1 = arith.uitofp %c1 : tensor<5xi1> to tensor<5xf32>
  %ok1 = dtc.reduce min %f1 [0] : tensor<5xf32> -> tensor<f32>
  %both1 = arith.minimumf %ok0, %ok1 : tensor<f32>
  return %both1 : tensor<f32>
}

func.func @adam() -> tensor<f32> {
  %p0 = arith.constant dense<[-1.2953581495582331, -1.3952619135697444, -0.41073953197000185, -0.6879077810041159, -0.5878301454929299]> : tensor<5xf64>
  %m0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %v0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %g0 = arith.constant dense<[1.5911293261393709, 0.28335360451249303, -0.39603473336823436, 1.1649066433766917, 1.2186988694052971]> : tensor<5xf64>
  %g1 = arith.constant dense<[-0.2868796499718707, 0.6693356643120943, -0.7099188778940545, 0.7775018365143944, -0.5266195549194422]> : tensor<5xf64>
  %g2 = arith.constant dense<[2.3295078048034115, 0.020014399223453015, -1.2721628335524846, -1.372804491645074, -1.9141241641649427]> : tensor<5xf64>
  %lr = arith.constant dense<0.01> : tensor<f64>
  %clip = arith.constant dense<0.5> : tensor<f64>
  %c0a = arith.constant dense<0.19999999999999996> : tensor<f64>
  %c0b = arith.constant dense<0.050000000000000044> : tensor<f64>
  %p1, %m1, %v1 = dtc.adam_update %p0, %g0, %m0, %v0, %lr, %clip, %c0a, %c0b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %c1a = arith.constant dense<0.3599999999999999> : tensor<f64>
  %c1b = arith.constant dense<0.09750000000000003> : tensor<f64>
  %p2, %m2, %v2 = dtc.adam_update %p1, %g1, %m1, %v1, %lr, %clip, %c1a, %c1b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %c2a = arith.constant dense<0.4879999999999999> : tensor<f64>
  %c2b = arith.constant dense<0.1426250000000001> : tensor<f64>
  %r0, %r1, %r2 = dtc.adam_update %p2, %g2, %m2, %v2, %lr, %clip, %c2a, %c2b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.1 : f64} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %e0 = arith.constant dense<[-1.3151286795387693, -1.413846404554252, -0.381041464662706, -0.7061880804600162, -0.5938969470311966]> : tensor<5xf64>
  %d0 = arith.subf %r0, %e0 : tensor<5xf64>
  %a0 = math.absf %d0 : tensor<5xf64>
  %t0 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c0 = arith.cmpf olt, %a0, %t0 : tensor<5xf64>
  %f0 = arith.uitofp %c0 : tensor<5xi1> to tensor<5xf32>
  %ok0 = dtc.reduce min %f0 [0] : tensor<5xf32> -> tensor<f32>
  %e1 = arith.constant dense<[0.24820220908591667, 0.005077786703381062, -0.2288417632981295, -0.034646949591803096, -0.1846204342794333]> : tensor<5xf64>
  %d1 = arith.subf %r1, %e1 : tensor<5xf64>
  %a1 = math.absf %d1 : tensor<5xf64>
  %t1 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c1 = arith.cmpf olt, %a1, %t1 : tensor<5xf64>
  %f1 = arith.uitofp %c1 : tensor<5xi1> to tensor<5xf32>
  %ok1 = dtc.reduce min %f1 [0] : tensor<5xf32> -> tensor<f32>
  %e2 = arith.constant dense<[0.07703355647374614, 0.0026525381670574368, 0.032784294030213344, 0.045402205840696666, 0.0703503964144527]> : tensor<5xf64>
  %d2 = arith.subf %r2, %e2 : tensor<5xf64>
  %a2 = math.absf %d2 : tensor<5xf64>
  %t2 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c2 = arith.cmpf olt, %a2, %t2 : tensor<5xf64>
  %f2 = arith.uitofp %c2 : tensor<5xi1> to tensor<5xf32>
  %ok2 = dtc.reduce min %f2 [0] : tensor<5xf32> -> tensor<f32>
  %both1 = arith.minimumf %ok0, %ok1 : tensor<f32>
  %both2 = arith.minimumf %both1, %ok2 : tensor<f32>
  return %both2 : tensor<f32>
}

func.func @adamw() -> tensor<f32> {
  %p0 = arith.constant dense<[2.8891358066909647, -1.0859277815795694, -0.4002399332427825, -0.21223133765342825, -0.08261719178257616]> : tensor<5xf64>
  %m0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %v0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %g0 = arith.constant dense<[0.988849571293651, 0.3234735157641727, 0.2228561496024224, 1.7420535751722277, -0.15285273113331332]> : tensor<5xf64>
  %g1 = arith.constant dense<[0.8030422521575786, -1.7575569129218964, 2.0262989495102266, 0.4855072262019364, -1.2046595461546468]> : tensor<5xf64>
  %g2 = arith.constant dense<[0.2719350581203922, 0.22401741906727637, -0.16911849452503463, -1.1248114576625106, -0.27984695123427633]> : tensor<5xf64>
  %lr = arith.constant dense<0.01> : tensor<f64>
  %clip = arith.constant dense<0.5> : tensor<f64>
  %c0a = arith.constant dense<0.19999999999999996> : tensor<f64>
  %c0b = arith.constant dense<0.050000000000000044> : tensor<f64>
  %p1, %m1, %v1 = dtc.adam_update %p0, %g0, %m0, %v0, %lr, %clip, %c0a, %c0b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.1 : f64, decoupled} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %c1a = arith.constant dense<0.3599999999999999> : tensor<f64>
  %c1b = arith.constant dense<0.09750000000000003> : tensor<f64>
  %p2, %m2, %v2 = dtc.adam_update %p1, %g1, %m1, %v1, %lr, %clip, %c1a, %c1b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.1 : f64, decoupled} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %c2a = arith.constant dense<0.4879999999999999> : tensor<f64>
  %c2b = arith.constant dense<0.1426250000000001> : tensor<f64>
  %r0, %r1, %r2 = dtc.adam_update %p2, %g2, %m2, %v2, %lr, %clip, %c2a, %c2b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.1 : f64, decoupled} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %e0 = arith.constant dense<[2.852099106877339, -1.082301990656743, -0.42294096927494085, -0.23109619599303677, -0.056280179994852284]> : tensor<5xf64>
  %d0 = arith.subf %r0, %e0 : tensor<5xf64>
  %a0 = math.absf %d0 : tensor<5xf64>
  %t0 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c0 = arith.cmpf olt, %a0, %t0 : tensor<5xf64>
  %f0 = arith.uitofp %c0 : tensor<5xi1> to tensor<5xf32>
  %ok0 = dtc.reduce min %f0 [0] : tensor<5xf32> -> tensor<f32>
  %e1 = arith.constant dense<[0.15472325854743915, -0.09750050611811699, 0.15945486008286966, 0.03785086114092646, -0.1341400336083314]> : tensor<5xf64>
  %d1 = arith.subf %r1, %e1 : tensor<5xf64>
  %a1 = math.absf %d1 : tensor<5xf64>
  %t1 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c1 = arith.cmpf olt, %a1, %t1 : tensor<5xf64>
  %f1 = arith.uitofp %c1 : tensor<5xi1> to tensor<5xf32>
  %ok1 = dtc.reduce min %f1 [0] : tensor<5xf32> -> tensor<f32>
  %e2 = arith.constant dense<[0.019613342218965442, 0.03848966228432986, 0.049675208319624346, 0.05284993360235851, 0.01847555848395654]> : tensor<5xf64>
  %d2 = arith.subf %r2, %e2 : tensor<5xf64>
  %a2 = math.absf %d2 : tensor<5xf64>
  %t2 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c2 = arith.cmpf olt, %a2, %t2 : tensor<5xf64>
  %f2 = arith.uitofp %c2 : tensor<5xi1> to tensor<5xf32>
  %ok2 = dtc.reduce min %f2 [0] : tensor<5xf32> -> tensor<f32>
  %both1 = arith.minimumf %ok0, %ok1 : tensor<f32>
  %both2 = arith.minimumf %both1, %ok2 : tensor<f32>
  return %both2 : tensor<f32>
}

func.func @adamw_without_decay() -> tensor<f32> {
  %p0 = arith.constant dense<[-1.4934138791117562, -1.3189705290318365, -0.2841834935756161, 0.8908079538031505, 1.2323653646463306]> : tensor<5xf64>
  %m0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %v0 = arith.constant dense<[0.0, 0.0, 0.0, 0.0, 0.0]> : tensor<5xf64>
  %g0 = arith.constant dense<[-0.35333890025324155, -1.806493316143559, 1.0875916579627312, 0.39837755625889615, -1.0640295251551883]> : tensor<5xf64>
  %g1 = arith.constant dense<[0.11499151195393593, 2.45515842857069, -0.8411170315752261, -1.265864030205326, 0.787049946125048]> : tensor<5xf64>
  %g2 = arith.constant dense<[0.9359666312059719, 0.3240924918043259, -0.2661162980888319, 0.9663666809604706, -0.31661300815642]> : tensor<5xf64>
  %lr = arith.constant dense<0.01> : tensor<f64>
  %clip = arith.constant dense<0.5> : tensor<f64>
  %c0a = arith.constant dense<0.19999999999999996> : tensor<f64>
  %c0b = arith.constant dense<0.050000000000000044> : tensor<f64>
  %p1, %m1, %v1 = dtc.adam_update %p0, %g0, %m0, %v0, %lr, %clip, %c0a, %c0b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.0 : f64, decoupled} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %c1a = arith.constant dense<0.3599999999999999> : tensor<f64>
  %c1b = arith.constant dense<0.09750000000000003> : tensor<f64>
  %p2, %m2, %v2 = dtc.adam_update %p1, %g1, %m1, %v1, %lr, %clip, %c1a, %c1b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.0 : f64, decoupled} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %c2a = arith.constant dense<0.4879999999999999> : tensor<f64>
  %c2b = arith.constant dense<0.1426250000000001> : tensor<f64>
  %r0, %r1, %r2 = dtc.adam_update %p2, %g2, %m2, %v2, %lr, %clip, %c2a, %c2b {beta1 = 0.8 : f64, beta2 = 0.95 : f64, eps = 1.0e-6 : f64, weightDecay = 0.0 : f64, decoupled} : (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>)
  %e0 = arith.constant dense<[-1.4853777539362183, -1.3142089050607453, -0.29309965849508746, 0.8854617831819821, 1.2446951319457515]> : tensor<5xf64>
  %d0 = arith.subf %r0, %e0 : tensor<5xf64>
  %a0 = math.absf %d0 : tensor<5xf64>
  %t0 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c0 = arith.cmpf olt, %a0, %t0 : tensor<5xf64>
  %f0 = arith.uitofp %c0 : tensor<5xi1> to tensor<5xf32>
  %ok0 = dtc.reduce min %f0 [0] : tensor<5xf32> -> tensor<f32>
  %e1 = arith.constant dense<[0.08018229446070459, 0.11320635123289997, -0.024295126225286477, 0.02086370928019033, -0.03679519473557021]> : tensor<5xf64>
  %d1 = arith.subf %r1, %e1 : tensor<5xf64>
  %a1 = math.absf %d1 : tensor<5xf64>
  %t1 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c1 = arith.cmpf olt, %a1, %t1 : tensor<5xf64>
  %f1 = arith.uitofp %c1 : tensor<5xi1> to tensor<5xf32>
  %ok1 = dtc.reduce min %f1 [0] : tensor<5xf32> -> tensor<f32>
  %e2 = arith.constant dense<[0.012515888646205875, 0.10970854429442443, 0.022630613049167688, 0.03249233361476127, 0.02138115472727888]> : tensor<5xf64>
  %d2 = arith.subf %r2, %e2 : tensor<5xf64>
  %a2 = math.absf %d2 : tensor<5xf64>
  %t2 = arith.constant dense<1.0e-11> : tensor<5xf64>
  %c2 = arith.cmpf olt, %a2, %t2 : tensor<5xf64>
  %f2 = arith.uitofp %c2 : tensor<5xi1> to tensor<5xf32>
  %ok2 = dtc.reduce min %f2 [0] : tensor<5xf32> -> tensor<f32>
  %both1 = arith.minimumf %ok0, %ok1 : tensor<f32>
  %both2 = arith.minimumf %both1, %ok2 : tensor<f32>
  return %both2 : tensor<f32>
}
