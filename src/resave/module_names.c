/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What classes below torch.nn assign to `self` in their own methods, sorted: __static_attributes__
 * in torch 2.14. Classes that are not here assign nothing themselves. The names of these classes
 * are unique. tests/interop/module_names.py compares the table with torch.
 */
#include "resave/module_names.h"

#include <stdlib.h>
#include <string.h>

struct class_names {
	const char *class, *names;
};

static const struct class_names table[] = {
	/* sorted by class */
	{ "AdaptiveLogSoftmaxWithLoss",
	  "cutoffs div_value head head_bias head_size in_features n_classes n_clusters shortlist_size tail" },
	{ "AvgPool1d", "ceil_mode count_include_pad kernel_size padding stride" },
	{ "AvgPool2d", "ceil_mode count_include_pad divisor_override kernel_size padding stride" },
	{ "AvgPool3d", "ceil_mode count_include_pad divisor_override kernel_size padding stride" },
	{ "Bilinear", "bias in1_features in2_features out_features weight" },
	{ "CELU", "alpha inplace" },
	{ "CTCLoss", "blank zero_infinity" },
	{ "ChannelShuffle", "groups" },
	{ "CircularPad1d", "padding" },
	{ "CircularPad2d", "padding" },
	{ "CircularPad3d", "padding" },
	{ "ConstantPad1d", "padding" },
	{ "ConstantPad2d", "padding" },
	{ "ConstantPad3d", "padding" },
	{ "CosineEmbeddingLoss", "margin" },
	{ "CosineSimilarity", "dim eps" },
	{ "CrossEntropyLoss", "ignore_index label_smoothing" },
	{ "CrossMapLRN2d", "alpha beta k size" },
	{ "DataParallel", "device_ids dim module output_device src_device_obj" },
	{ "DistributedDataParallel",
	  "_accum_grad_hooks _authoritative_rank _bucket_config _comm_hooks _ddp_sink_clone _delay_all_reduce_all_params _delay_all_reduce_params _delay_grad_buffer _delay_grad_views _has_rebuilt_buckets _lazy_init_ran _module_parameters _mp_stream _static_graph_delay_allreduce_enqueued _submodule_to_event _use_python_reducer batched_grad_copy broadcast_bucket_size bucket_bytes_cap bucket_bytes_cap_default bucket_bytes_cap_list buffer_hook device device_ids device_mesh device_type dim find_unused_parameters forward_sync_buffers gradient_as_bucket_view is_multi_device_module logger mixed_precision module modules_buffers named_module_buffers output_device parameters_to_ignore process_group reducer require_backward_grad_sync require_forward_param_sync skip_all_reduce_unused_params static_graph use_side_stream_for_tensor_copies" },
	{ "ELU", "alpha inplace" },
	{ "Embedding",
	  "embedding_dim max_norm norm_type num_embeddings padding_idx scale_grad_by_freq sparse weight" },
	{ "EmbeddingBag",
	  "embedding_dim include_last_offset max_norm mode norm_type num_embeddings padding_idx scale_grad_by_freq sparse weight" },
	{ "Flatten", "end_dim start_dim" },
	{ "Fold", "dilation kernel_size output_size padding stride" },
	{ "FractionalMaxPool2d", "kernel_size output_ratio output_size return_indices" },
	{ "FractionalMaxPool3d", "kernel_size output_ratio output_size return_indices" },
	{ "GELU", "approximate" },
	{ "GLU", "dim" },
	{ "GaussianNLLLoss", "eps full" },
	{ "GroupNorm", "affine bias eps num_channels num_groups weight" },
	{ "Hardshrink", "lambd" },
	{ "Hardsigmoid", "inplace" },
	{ "Hardswish", "inplace" },
	{ "Hardtanh", "inplace max_val min_val" },
	{ "HingeEmbeddingLoss", "margin" },
	{ "HuberLoss", "delta" },
	{ "KLDivLoss", "log_target" },
	{ "LayerNorm", "bias elementwise_affine eps normalized_shape weight" },
	{ "LazyConv1d", "bias out_channels weight" },
	{ "LazyConv2d", "bias out_channels weight" },
	{ "LazyConv3d", "bias out_channels weight" },
	{ "LazyConvTranspose1d", "bias out_channels weight" },
	{ "LazyConvTranspose2d", "bias out_channels weight" },
	{ "LazyConvTranspose3d", "bias out_channels weight" },
	{ "LazyLinear", "bias in_features out_features weight" },
	{ "LeakyReLU", "inplace negative_slope" },
	{ "Linear", "bias in_features out_features weight" },
	{ "LinearCrossEntropyLoss",
	  "ignore_index label_smoothing linear num_classes options out_features" },
	{ "LocalResponseNorm", "alpha beta k size" },
	{ "LogSoftmax", "dim" },
	{ "MarginRankingLoss", "margin" },
	{ "MaxUnpool1d", "kernel_size padding stride" },
	{ "MaxUnpool2d", "kernel_size padding stride" },
	{ "MaxUnpool3d", "kernel_size padding stride" },
	{ "Mish", "inplace" },
	{ "Module",
	  "_backward_pre_hooks _compiled_call_impl _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs _is_full_backward_hook _load_state_dict_post_hooks _load_state_dict_pre_hooks _non_persistent_buffers_set _state_dict_hooks _state_dict_pre_hooks training" },
	{ "ModuleList", "_modules" },
	{ "MultiMarginLoss", "margin p" },
	{ "MultiheadAttention",
	  "_qkv_same_embed_dim add_zero_attn batch_first bias_k bias_v dropout embed_dim head_dim in_proj_bias in_proj_weight k_proj_weight kdim num_heads out_proj q_proj_weight v_proj_weight vdim" },
	{ "NLLLoss", "ignore_index" },
	{ "PReLU", "init num_parameters weight" },
	{ "PairwiseDistance", "eps keepdim norm" },
	{ "ParameterDict", "_keys" },
	{ "ParameterList", "_size" },
	{ "ParametrizationList", "is_tensor ntensors unsafe" },
	{ "PixelShuffle", "upscale_factor" },
	{ "PixelUnshuffle", "downscale_factor" },
	{ "PoissonNLLLoss", "eps full log_input" },
	{ "RMSNorm", "elementwise_affine eps normalized_shape weight" },
	{ "RNN", "nonlinearity" },
	{ "RNNBase",
	  "_all_weights _flat_weight_refs _flat_weights _flat_weights_names batch_first bias bidirectional dropout hidden_size input_size mode num_layers proj_size" },
	{ "RNNCell", "nonlinearity" },
	{ "RNNCellBase", "bias bias_hh bias_ih hidden_size input_size weight_hh weight_ih" },
	{ "RReLU", "inplace lower upper" },
	{ "ReLU", "inplace" },
	{ "ReflectionPad1d", "padding" },
	{ "ReflectionPad2d", "padding" },
	{ "ReflectionPad3d", "padding" },
	{ "ReplicationPad1d", "padding" },
	{ "ReplicationPad2d", "padding" },
	{ "ReplicationPad3d", "padding" },
	{ "SELU", "inplace" },
	{ "Sequential", "_modules" },
	{ "SiLU", "inplace" },
	{ "SmoothL1Loss", "beta" },
	{ "Softmax", "dim" },
	{ "Softmin", "dim" },
	{ "Softplus", "beta threshold" },
	{ "Softshrink", "lambd" },
	{ "SyncBatchNorm", "process_group" },
	{ "Threshold", "inplace threshold value" },
	{ "Transformer", "batch_first d_model decoder encoder nhead" },
	{ "TransformerDecoder", "layers norm num_layers" },
	{ "TransformerDecoderLayer",
	  "activation dropout dropout1 dropout2 dropout3 linear1 linear2 multihead_attn norm1 norm2 norm3 norm_first self_attn" },
	{ "TransformerEncoder",
	  "enable_nested_tensor layers mask_check norm num_layers use_nested_tensor" },
	{ "TransformerEncoderLayer",
	  "activation activation_relu_or_gelu dropout dropout1 dropout2 linear1 linear2 norm1 norm2 norm_first self_attn" },
	{ "TripletMarginLoss", "eps margin p swap" },
	{ "TripletMarginWithDistanceLoss", "distance_function margin swap" },
	{ "Unflatten", "dim unflattened_size" },
	{ "Unfold", "dilation kernel_size padding stride" },
	{ "Upsample", "align_corners mode name recompute_scale_factor scale_factor size" },
	{ "_AdaptiveAvgPoolNd", "output_size" },
	{ "_AdaptiveMaxPoolNd", "output_size return_indices" },
	{ "_ConstantPadNd", "value" },
	{ "_ConvNd",
	  "_reversed_padding_repeated_twice bias dilation groups in_channels kernel_size out_channels output_padding padding padding_mode stride transposed weight" },
	{ "_DropoutNd", "inplace p" },
	{ "_LPPoolNd", "ceil_mode kernel_size norm_type stride" },
	{ "_LazyNormBase",
	  "affine bias num_batches_tracked num_features running_mean running_var track_running_stats weight" },
	{ "_Loss", "reduction" },
	{ "_MaxPoolNd", "ceil_mode dilation kernel_size padding return_indices stride" },
	{ "_NormBase", "affine bias eps momentum num_features track_running_stats weight" },
	{ "_Orthogonal", "base orthogonal_map shape" },
	{ "_SpectralNorm", "_u _v dim eps n_power_iterations" },
	{ "_WeightNorm", "dim" },
};

/* What torch.nn.Module has in every instance. */
static const char *const module_attributes[] = {
	"training",
	"_parameters",
	"_buffers",
	"_non_persistent_buffers_set",
	"_backward_pre_hooks",
	"_backward_hooks",
	"_is_full_backward_hook",
	"_forward_hooks",
	"_forward_hooks_with_kwargs",
	"_forward_hooks_always_called",
	"_forward_pre_hooks",
	"_forward_pre_hooks_with_kwargs",
	"_state_dict_hooks",
	"_state_dict_pre_hooks",
	"_load_state_dict_pre_hooks",
	"_load_state_dict_post_hooks",
	"_modules",
};

static int compare_class(const void *name, const void *row)
{
	return strcmp(name, ((const struct class_names *)row)->class);
}

const char *ckpt_module_class_names(const char *module, const char *class)
{
	const struct class_names *row;

	if (strncmp(module, "torch.nn.", strlen("torch.nn.")) != 0)
		return NULL;
	row = bsearch(class, table, sizeof(table) / sizeof(table[0]), sizeof(table[0]),
		      compare_class);
	return row ? row->names : "";
}

bool ckpt_is_module_attribute(const char *name, uint64_t len)
{
	for (size_t i = 0; i < sizeof(module_attributes) / sizeof(module_attributes[0]); i++)
		if (strlen(module_attributes[i]) == len && !memcmp(module_attributes[i], name, len))
			return true;
	return false;
}
