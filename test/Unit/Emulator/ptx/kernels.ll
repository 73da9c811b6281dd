; Kernels of the kinds that the compiler emits. kernels.ptx is made from them by
;   llc-22 -march=nvptx64 -mcpu=sm_80 -mattr=+ptx80 kernels.ll -o kernels.ptx
target triple = "nvptx64-nvidia-cuda"

@partial = internal addrspace(3) global [32 x float] undef, align 16

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare float @llvm.nvvm.ex2.approx.f(float)

; y[i] = x[i] > 0 ? 2 x[i] + 1 : -x[i], four at a time
define ptx_kernel void @elementwise(ptr addrspace(1) align 16 %x, ptr addrspace(1) align 16 %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %bn = mul i32 %b, %n
  %i = add i32 %bn, %t
  %px = getelementptr <4 x float>, ptr addrspace(1) %x, i32 %i
  %v = load <4 x float>, ptr addrspace(1) %px, align 16
  %c = fcmp ogt <4 x float> %v, zeroinitializer
  %m = fmul <4 x float> %v, splat (float 2.0)
  %a = fadd <4 x float> %m, splat (float 1.0)
  %g = fneg <4 x float> %v
  %r = select <4 x i1> %c, <4 x float> %a, <4 x float> %g
  %py = getelementptr <4 x float>, ptr addrspace(1) %y, i32 %i
  store <4 x float> %r, ptr addrspace(1) %py, align 16
  ret void
}

; y[row] = sum of 1,000 bf16 of a row, by 128 threads
define ptx_kernel void @row_sum(ptr addrspace(1) %x, ptr addrspace(1) %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %row = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %row, 1000
  br label %loop
loop:
  %j = phi i32 [ %t, %entry ], [ %next, %body ]
  %acc = phi float [ 0.0, %entry ], [ %sum, %body ]
  %more = icmp slt i32 %j, 1000
  br i1 %more, label %body, label %done
body:
  %at = add i32 %base, %j
  %p = getelementptr bfloat, ptr addrspace(1) %x, i32 %at
  %h = load bfloat, ptr addrspace(1) %p, align 2
  %f = fpext bfloat %h to float
  %sum = fadd float %acc, %f
  %next = add i32 %j, 128
  br label %loop
done:
  %s16 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %acc, i32 16, i32 31)
  %a16 = fadd float %acc, %s16
  %s8 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a16, i32 8, i32 31)
  %a8 = fadd float %a16, %s8
  %s4 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a8, i32 4, i32 31)
  %a4 = fadd float %a8, %s4
  %s2 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a4, i32 2, i32 31)
  %a2 = fadd float %a4, %s2
  %s1 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a2, i32 1, i32 31)
  %a1 = fadd float %a2, %s1
  %lane = and i32 %t, 31
  %w = lshr i32 %t, 5
  %first = icmp eq i32 %lane, 0
  br i1 %first, label %put, label %meet
put:
  %slot = getelementptr float, ptr addrspace(3) @partial, i32 %w
  store float %a1, ptr addrspace(3) %slot, align 4
  br label %meet
meet:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %is0 = icmp eq i32 %t, 0
  br i1 %is0, label %finish, label %end
finish:
  %p0 = load float, ptr addrspace(3) @partial, align 4
  %q1 = getelementptr float, ptr addrspace(3) @partial, i32 1
  %p1 = load float, ptr addrspace(3) %q1, align 4
  %q2 = getelementptr float, ptr addrspace(3) @partial, i32 2
  %p2 = load float, ptr addrspace(3) %q2, align 4
  %q3 = getelementptr float, ptr addrspace(3) @partial, i32 3
  %p3 = load float, ptr addrspace(3) %q3, align 4
  %t0 = fadd float %p0, %p1
  %t1 = fadd float %t0, %p2
  %t2 = fadd float %t1, %p3
  %out = getelementptr float, ptr addrspace(1) %y, i32 %row
  store float %t2, ptr addrspace(1) %out, align 4
  br label %end
end:
  ret void
}

; y[i] from bf16 x[i] by a loop whose count differs among threads
define ptx_kernel void @diverging(ptr addrspace(1) %x, ptr addrspace(1) %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr bfloat, ptr addrspace(1) %x, i32 %t
  %h = load bfloat, ptr addrspace(1) %p, align 2
  %f = fpext bfloat %h to float
  %count = and i32 %t, 7
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %latch ]
  %v = phi float [ %f, %entry ], [ %w, %latch ]
  %more = icmp slt i32 %i, %count
  br i1 %more, label %body, label %done
body:
  %big = fcmp ogt float %v, 2.0
  br i1 %big, label %halve, label %grow
halve:
  %v1 = fmul float %v, 0.5
  br label %latch
grow:
  %e = call float @llvm.nvvm.ex2.approx.f(float %v)
  br label %latch
latch:
  %w = phi float [ %v1, %halve ], [ %e, %grow ]
  %next = add i32 %i, 1
  br label %loop
done:
  %r = fptrunc float %v to bfloat
  %q = getelementptr bfloat, ptr addrspace(1) %y, i32 %t
  store bfloat %r, ptr addrspace(1) %q, align 2
  ret void
}

; y[i] by a switch of six cases over i modulo 8, which becomes a table of branches
define ptx_kernel void @switching(ptr addrspace(1) %y) {
entry:
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %k = and i32 %t, 7
  %q = getelementptr i32, ptr addrspace(1) %y, i32 %t
  switch i32 %k, label %other [
    i32 0, label %c0
    i32 1, label %c1
    i32 2, label %c2
    i32 3, label %c3
    i32 4, label %c4
    i32 5, label %c5
  ]
c0:
  store volatile i32 10, ptr addrspace(1) %q
  br label %end
c1:
  %m1 = mul i32 %t, 3
  store volatile i32 %m1, ptr addrspace(1) %q
  br label %end
c2:
  %d2 = udiv i32 %t, 3
  store volatile i32 %d2, ptr addrspace(1) %q
  br label %end
c3:
  %x3 = xor i32 %t, 85
  store volatile i32 %x3, ptr addrspace(1) %q
  br label %end
c4:
  %a4 = add i32 %t, 1000
  store volatile i32 %a4, ptr addrspace(1) %q
  br label %end
c5:
  %s5 = shl i32 %t, 4
  store volatile i32 %s5, ptr addrspace(1) %q
  br label %end
other:
  store volatile i32 -1, ptr addrspace(1) %q
  br label %end
end:
  ret void
}
