/* SPDX-License-Identifier: Apache-2.0 */
#include "model/safe_globals.h"

#include "tensor/dtype.h"

#include <string.h>

static const struct {
	const char *module, *name;
} safe[] = {
	{ "collections", "OrderedDict" },
	{ "collections", "Counter" },
	{ "_codecs", "encode" },
	{ "builtins", "bytearray" },
	{ "__builtin__", "bytearray" },
	{ "builtins", "set" },
	{ "__builtin__", "set" },
	{ "builtins", "complex" },
	{ "__builtin__", "complex" },
	{ "torch", "Size" },
	{ "torch", "Tensor" },
	{ "torch", "device" },
	{ "torch.nn.parameter", "Parameter" },
	{ "torch.serialization", "_get_layout" },
	{ "torch._tensor", "_rebuild_from_type_v2" },
	{ "torch._utils", "_rebuild_parameter" },
	{ "torch._utils", "_rebuild_parameter_with_state" },
	{ "torch._utils", "_rebuild_tensor" },
	{ "torch._utils", "_rebuild_tensor_v2" },
	{ "torch._utils", "_rebuild_tensor_v3" },
	{ "torch._utils", "_rebuild_sparse_tensor" },
	{ "torch._utils", "_rebuild_meta_tensor_no_storage" },
	{ "torch._utils", "_rebuild_qtensor" },
	{ "torch._utils", "_rebuild_nested_tensor" },
	{ "torch._utils", "_rebuild_wrapper_subclass" },
	{ "torch._utils", "_rebuild_device_tensor_from_numpy" },
	{ "torch._utils", "_rebuild_device_tensor_from_cpu_tensor" },
	{ "torch", "per_tensor_affine" },
	{ "torch", "per_tensor_symmetric" },
	{ "torch", "per_channel_affine" },
	{ "torch", "per_channel_symmetric" },
	{ "torch", "per_channel_affine_float_qparams" },
	{ "torch.storage", "UntypedStorage" },
	{ "torch.storage", "TypedStorage" },
};

/* Dtypes that 2.6 does not know, or that nobody allows, are left out. */
static bool is_safe_dtype(const char *name)
{
	enum ckpt_dtype dtype = ckpt_dtype_find(name);

	return dtype != CKPT_DTYPE_UNKNOWN && !strcmp(ckpt_dtype_name(dtype), name) &&
	       dtype != CKPT_DTYPE_FLOAT8_E8M0FNU && dtype != CKPT_DTYPE_FLOAT4_E2M1FN_X2 &&
	       dtype != CKPT_DTYPE_BCOMPLEX32;
}

bool ckpt_is_safe_global(const char *module, const char *name)
{
	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
		if (!strcmp(safe[i].module, module) && !strcmp(safe[i].name, name))
			return true;
	if (strcmp(module, "torch"))
		return false;
	return is_safe_dtype(name) || ckpt_dtype_of_storage(name) != CKPT_DTYPE_UNKNOWN;
}
