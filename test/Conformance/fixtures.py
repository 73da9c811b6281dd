"""Writes test/Conformance/fixtures: models of many nodes, with inputs and outputs by onnx's tests and onnxruntime.

    python test/Conformance/fixtures.py

needs onnx and onnxruntime. test/Integration/test_onnx_nodes.py compiles and runs them without either.
"""

import pathlib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import arrays
from onnx_nodes import NOTHING, SAMPLES, collect, inputs_of, is_array, variant, with_samples

FOLDER = pathlib.Path(__file__).parent / "fixtures"
# Of each operator the smallest tests that show its forms. Their inputs in braces are stored in the model.
NODES = {
    "celu": set(), "selu": set(), "softsign": set(), "shrink_hard": set(), "shrink_soft": set(),
    "thresholdedrelu": set(), "hardmax_axis_1": set(), "hardmax_one_hot": set(), "swish": set(),
    "mean_example": set(), "acos_example": set(), "asin_example": set(), "atan_example": set(),
    "acosh_example": set(), "asinh_example": set(), "atanh_example": set(), "cosh_example": set(),
    "sinh_example": set(), "tan_example": set(), "mod_mixed_sign_int32": set(), "mod_int64_fmod": set(),
    "mod_mixed_sign_float32": set(), "isinf_negative": set(), "isinf_positive": set(),
    "pow_types_int32_int32": set(), "pow_types_int32_float32": set(), "bitwise_not_2d": set(),
    "reduce_log_sum_exp_default_axes_keepdims_example": {"axes"}, "reduce_max_bool_inputs": {"axes"},
    "lstm_with_peepholes": {"sequence_lens"}, "lstm_batchwise": set(), "lstm_bidirectional": set(),
    "gru_seq_length": set(), "gru_batchwise": set(), "rnn_seq_length": set(), "simple_rnn_batchwise": set(),
    "reversesequence_batch": {"sequence_lens"}, "if": {"cond"}, "scan9_sum": set(),
    "scatter_elements_with_axis": {"indices"}, "scatter_elements_with_duplicate_indices": {"indices"},
    "scatter_elements_with_reduction_max": {"indices"}, "scatternd_multiply": {"indices"},
    "scatter_elements_with_negative_indices": set(), "scatter_elements_with_reduction_min": set(), "scatternd": set(),
    "scatternd_add": set(), "tensorscatter_circular": set(), "maxunpool_export_with_output_shape": {"output_shape"},
    "maxpool_with_argmax_2d_precomputed_strides": set(),
    "scatternd_min": {"indices"}, "convtranspose_1d": set(), "convtranspose_output_shape": set(),
    "convtranspose_group_2": set(), "convtranspose_dilations": set(), "depthtospace_example": set(),
    "depthtospace_crd_mode_example": set(), "spacetodepth_example": set(), "lrn_default": set(),
    "l2normalization_axis_1": set(), "lpnormalization_default": set(), "mvn": set(),
    "col2im_5d": {"image_shape", "block_shape"},
    "lppool_1d_default": set(), "gridsample_bilinear_align_corners_1_additional_1": set(), "gridsample_bicubic": set(),
    "gridsample_reflection_padding": set(), "affine_grid_2d": {"size"}, "eyelike_with_dtype": set(),
    "cumprod_2d_axis_1": {"axis"}, "cumprod_1d_reverse_exclusive": {"axis"}, "upsample_nearest": {"scales"},
    "hannwindow": {"x"}, "dft": {"axis"}, "center_crop_pad_crop_and_pad": {"shape"},
    "swiglu": set(), "logsoftmax_axis_1": set(), "edge_pad": {"pads"}, "reflect_pad": {"pads"}, "wrap_pad": {"pads"},
    "einsum_batch_diagonal": set(), "nllloss_NCd1_weight_ii": set(), "sce_mean_weight_ii_log_prob": set(),
    "sce_none_weights_log_prob": set(), "rotary_embedding_no_position_ids_interleaved": set(),
    "gathernd_example_int32_batch_dim1": {"indices"}, "scan_sum": set(),
    "attention_4d_causal_with_past_and_present": set(), "attention_4d_gqa_softcap": set(),
    "attention_4d_causal_nonpad_continued_prefill": set(), "attention_local_window_gqa_rank4_mask": set(),
    "attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal": set(), "attention_3d_causal": set(),
    "resize_downsample_sizes_cubic_antialias": {"sizes"}, "resize_tf_crop_and_resize_extrapolation_value": {"roi", "sizes"},
    "resize_upsample_scales_cubic_A_n0p5_exclude_outside": {"scales"}, "resize_upsample_sizes_nearest_not_larger": {"sizes"},
    "resize_upsample_scales_linear_half_pixel_symmetric": {"scales"}, "roialign_aligned_false": set(), "roialign_mode_max": set(),
    "deform_conv_with_mask_bias": set(), "deform_conv_with_multiple_offset_groups": set(), "det_nd": set(),
    "bitshift_left_int8_overflow": set(), "bitshift_right_int32_negative_input": set(),
    "bitshift_right_int8_shift_ge_width": set(), "linear_attention_gated_delta": set(),
    "causal_conv_with_state_silu_with_past_state": set(),
    "melweightmatrix": {"num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"},
}


def prefixed(model: onnx.ModelProto, prefix: str) -> onnx.GraphProto:
    from onnx.compose import add_prefix

    return add_prefix(model, prefix + "/", rename_edges=True).graph


def write(name: str, parts: list, opset: int) -> None:
    """One model of several: (name, model, inputs, outputs), each with a first dimension of 1."""
    graph, data = onnx.GraphProto(name=name), {}
    for part, model, inputs, outputs in parts:
        own = prefixed(with_samples(model, inputs), part)
        for field in ("node", "initializer", "input", "output"):
            getattr(graph, field).extend(getattr(own, field))
        data.update({f"{part}/{key}{SAMPLES}": value[None] for key, value in inputs.items()})
        if not inputs:
            data[f"{part}/{NOTHING}"] = numpy.zeros((1, 1), numpy.float32)
        data.update({f"output:{part}/{key}{SAMPLES}": numpy.asarray(value)[None] for key, value in outputs.items()})
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10),
              FOLDER / f"{name}.onnx")
    arrays.save(data, FOLDER / f"{name}.safetensors")


def node_models() -> None:
    cases = {case.name.removeprefix("test_"): case for case in collect()}
    by_opset = {}
    for name, constants in NODES.items():
        case = cases[name]
        inputs = {key: value for key, value in inputs_of(case).items() if key not in constants}
        assert all(map(is_array, inputs.values())), name
        outputs = {info.name: value for info, value in zip(case.model.graph.output, case.data_sets[0][1])}
        opset = next(o.version for o in case.model.opset_import if o.domain in ("", "ai.onnx"))
        by_opset.setdefault(opset, []).append((name, variant(case, constants), inputs, outputs))
    for opset, parts in by_opset.items():
        write(f"opset{opset}", parts, opset)


def old_node(op: str, shape: list[int], *stored: numpy.ndarray, outputs: int = 1, **attributes) -> onnx.ModelProto:
    names = [f"c{i}" for i in range(len(stored))]
    node = helper.make_node(op, ["x", *names], [f"y{i}" for i in range(outputs)], **attributes)
    return helper.make_model(helper.make_graph(
        [node], op, [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)],
        [numpy_helper.from_array(array, name) for name, array in zip(names, stored)]))


def old_models() -> None:
    """Forms that later opsets have no more, by onnxruntime."""
    f32 = lambda *values: numpy.array(values, numpy.float32)
    forms = {
        7: [old_node("Squeeze", [1, 3, 1], axes=[0]), old_node("Unsqueeze", [2, 3], axes=[0, 2]),
            old_node("Softmax", [2, 3, 4]), old_node("LogSoftmax", [2, 3, 4], axis=2),
            old_node("Hardmax", [2, 3, 4], axis=1), old_node("Clip", [2, 3], min=-0.5, max=0.25),
            old_node("Pad", [2, 3], pads=[0, 1, 2, 0], value=1.5),
            old_node("Slice", [4, 5], starts=[1, -3], ends=[3, 5], axes=[0, 1]),
            old_node("ReduceSum", [2, 3, 4], axes=[1], keepdims=0), old_node("Dropout", [2, 3], ratio=0.25),
            old_node("BatchNormalization", [2, 3, 4], *(numpy.abs(numpy.random.default_rng(i).normal(size=3)).astype(
                numpy.float32) for i in range(4))),
            old_node("Upsample", [1, 2, 2, 3], scales=[1.0, 1.0, 2.0, 3.0]),
            old_node("Split", [2, 5], outputs=2, axis=1, split=[2, 3]), old_node("TopK", [2, 5], outputs=2, k=2)],
        9: [old_node("Upsample", [1, 2, 2, 3], f32(1, 1, 2, 2), mode="linear"),
            old_node("Scatter", [2, 3], numpy.array([[2, 0]]), f32([7, 8]), axis=1)],
        10: [old_node("Resize", [1, 1, 4, 4], f32(1, 1, 0.6, 0.6), mode="linear"),
             old_node("Slice", [5, 6], numpy.array([4]), numpy.array([0]), numpy.array([1]), numpy.array([-2]))],
        12: [old_node("Squeeze", [1, 3, 1]), old_node("ReduceSum", [2, 3]), old_node("Softmax", [2, 3, 4], axis=-2)],
        18: [old_node("GroupNormalization", [2, 4, 3], f32(1, 2), f32(0, 1), num_groups=2)],
    }
    for opset, models in forms.items():
        by_onnxruntime(f"old{opset}", models, opset)


def by_onnxruntime(name: str, models: list[onnx.ModelProto], opset: int) -> None:
    """One model of several nodes."""
    import onnxruntime

    parts = []
    for number, model in enumerate(models):
        del model.opset_import[:]
        model.opset_import.append(helper.make_opsetid("", opset))
        model.ir_version = 8
        size = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
        inputs = {"x": numpy.random.default_rng(number).normal(size=size).astype(numpy.float32)}
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [output.name for output in model.graph.output]
        parts.append((f"{model.graph.node[0].op_type}{number}", model, inputs,
                      dict(zip(names, session.run(names, inputs)))))
    write(name, parts, opset)


def recurrent_models() -> None:
    """Forms of LSTM, GRU and RNN that onnx's own tests don't have, on samples of different lengths."""
    rng = numpy.random.default_rng(5)
    time, batch, width, hidden = 4, 3, 2, 2

    def cell(op: str, gates: int, outputs: int, **attributes) -> onnx.ModelProto:
        ways = 2 if attributes["direction"] == "bidirectional" else 1
        draw = lambda *shape: rng.normal(size=(ways, *shape)).astype(numpy.float32)
        stored = [draw(gates * hidden, width), draw(gates * hidden, hidden), draw(2 * gates * hidden),
                  numpy.array([3, 4, 1], numpy.int32), *(draw(batch, hidden) for _ in range(outputs - 1))]
        if op == "LSTM":
            stored.append(draw(3 * hidden))
        return old_node(op, [time, batch, width], *stored, outputs=outputs, hidden_size=hidden, **attributes)

    # LSTM without `clip`: onnxruntime doesn't clip what the last activation reads, which ONNX has clipped, too.
    by_onnxruntime("recurrent", [
        cell("LSTM", 4, 3, direction="bidirectional",
             activations=["Sigmoid", "Tanh", "Softsign", "Sigmoid", "Relu", "Tanh"]),
        cell("GRU", 3, 2, direction="bidirectional", linear_before_reset=1, clip=0.5),
        cell("GRU", 3, 2, direction="reverse", activations=["Sigmoid", "Softsign"]),
        cell("RNN", 1, 2, direction="reverse", activations=["Relu"], clip=0.75)], opset=17)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    node_models()
    old_models()
    recurrent_models()
