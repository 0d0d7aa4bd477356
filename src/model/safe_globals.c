/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which classes and functions torch.load(weights_only=True) accepts, by version: a table of
 * names, and rules for the families (dtypes, tensor and storage classes, exceptions). Source:
 * torch/_weights_only_unpickler.py (_get_allowed_globals) of 1.13, 2.6 and 2.14, and
 * add_safe_globals() calls below torch/.
 *
 * A name must never be accepted for a version that refuses it: `ckpt scan` and `ckpt sanitize`
 * promise what torch will load. Compare a new version's table by running it, not by reading.
 */
#include "model/safe_globals.h"

#include "base/text.h"
#include "tensor/dtype.h"

#include <string.h>

enum { OLD = CKPT_SAFE_IN_1_13, NEW = CKPT_SAFE_IN_2_6 | CKPT_SAFE_IN_2_14, ALL = OLD | NEW };

static const struct {
	const char *module, *name;
	unsigned in;
} safe[] = {
	{ "collections", "OrderedDict", ALL },
	{ "collections", "Counter", NEW },
	{ "_codecs", "encode", NEW },
	{ "builtins", "bytearray", NEW },
	{ "builtins", "set", NEW },
	{ "builtins", "complex", NEW },
	{ "torch", "Size", ALL },
	{ "torch", "Tensor", ALL },
	{ "torch", "device", NEW },
	{ "torch.nn.parameter", "Parameter", ALL },
	{ "torch.serialization", "_get_layout", ALL },
	{ "torch._tensor", "_rebuild_from_type_v2", NEW },
	{ "torch._utils", "_rebuild_parameter", ALL },
	{ "torch._utils", "_rebuild_parameter_with_state", NEW },
	{ "torch._utils", "_rebuild_tensor", ALL },
	{ "torch._utils", "_rebuild_tensor_v2", ALL },
	{ "torch._utils", "_rebuild_tensor_v3", NEW },
	{ "torch._utils", "_rebuild_sparse_tensor", ALL },
	{ "torch._utils", "_rebuild_sparse_csr_tensor", OLD },
	{ "torch._utils", "_rebuild_meta_tensor_no_storage", ALL },
	{ "torch._utils", "_rebuild_qtensor", NEW },
	{ "torch._utils", "_rebuild_nested_tensor", NEW },
	{ "torch._utils", "_rebuild_wrapper_subclass", NEW },
	{ "torch._utils", "_rebuild_device_tensor_from_numpy", NEW },
	{ "torch._utils", "_rebuild_device_tensor_from_cpu_tensor", NEW },
	{ "torch", "per_tensor_affine", NEW },
	{ "torch", "per_tensor_symmetric", NEW },
	{ "torch", "per_channel_affine", NEW },
	{ "torch", "per_channel_symmetric", NEW },
	{ "torch", "per_channel_affine_float_qparams", NEW },
	/* what importing torch adds to the list of the user */
	{ "torch.nested._internal.nested_tensor", "NestedTensor", NEW },
	{ "torch.nested._internal.nested_tensor", "_rebuild_njt", NEW },
	{ "torch.distributed._mesh_layout", "_FlatLayout", CKPT_SAFE_IN_2_14 },
	{ "torch.distributed._mesh_layout", "_MeshLayout", CKPT_SAFE_IN_2_14 },
	{ "traceback", "FrameSummary", CKPT_SAFE_IN_2_14 },
	{ "traceback", "StackSummary", CKPT_SAFE_IN_2_14 },
	{ "torch.storage", "UntypedStorage", ALL },
	{ "torch.storage", "TypedStorage", ALL },
};

/*
 * Exceptions, which importing torch 2.14 allows: those that Python 2 had as well, and those of
 * Python 3.14.
 */
/* clang-format off */
static const char *const old_exceptions[] = {
	"ArithmeticError", "AssertionError", "AttributeError", "BaseException", "BufferError",
	"BytesWarning", "DeprecationWarning", "EOFError", "Exception", "FloatingPointError",
	"FutureWarning", "GeneratorExit", "ImportError", "ImportWarning", "IndentationError",
	"IndexError", "KeyError", "KeyboardInterrupt", "LookupError", "MemoryError", "NameError",
	"NotImplementedError", "OSError", "OverflowError", "PendingDeprecationWarning",
	"ReferenceError", "RuntimeError", "RuntimeWarning", "StopIteration", "SyntaxError",
	"SyntaxWarning", "SystemError", "SystemExit", "TabError", "TypeError", "UnboundLocalError",
	"UnicodeDecodeError", "UnicodeEncodeError", "UnicodeError", "UnicodeTranslateError",
	"UnicodeWarning", "UserWarning", "ValueError", "Warning", "ZeroDivisionError", NULL,
};
static const char *const new_exceptions[] = {
	"BaseExceptionGroup", "BlockingIOError", "BrokenPipeError", "ChildProcessError",
	"ConnectionAbortedError", "ConnectionError", "ConnectionRefusedError",
	"ConnectionResetError", "EncodingWarning", "ExceptionGroup", "FileExistsError",
	"FileNotFoundError", "InterruptedError", "IsADirectoryError", "ModuleNotFoundError",
	"NotADirectoryError", "PermissionError", "ProcessLookupError", "PythonFinalizationError",
	"RecursionError", "ResourceWarning", "StopAsyncIteration", "TimeoutError",
	"_IncompleteInputError", NULL,
};
/* clang-format on */

static bool is_exception(const char *module, const char *name)
{
	if (!strcmp(module, "exceptions"))
		return !strcmp(name, "StandardError") || ckpt_is_one_of(name, old_exceptions);
	return !strcmp(module, "builtins") &&
	       (ckpt_is_one_of(name, old_exceptions) || ckpt_is_one_of(name, new_exceptions));
}

static unsigned dtype_in(const char *name)
{
	static const char *const old[] = { "float16",	"float32",   "float64", "int8",
					   "int16",	"int32",     "int64",	"complex32",
					   "complex64", "complex128" };
	enum ckpt_dtype dtype = ckpt_dtype_find(name);
	bool is_int = !strncmp(name, "int", 3) || !strncmp(name, "uint", 4);
	const char *digits = name + (*name == 'u' ? 4 : 3);

	if (is_int && digits[0] >= '1' && digits[0] <= '7' && !digits[1])
		return CKPT_SAFE_IN_2_14; /* int4: a name without values */
	if (dtype == CKPT_DTYPE_UNKNOWN || strcmp(ckpt_dtype_name(dtype), name) != 0)
		return 0;
	if (dtype == CKPT_DTYPE_FLOAT8_E8M0FNU || dtype == CKPT_DTYPE_FLOAT4_E2M1FN_X2 ||
	    dtype == CKPT_DTYPE_BCOMPLEX32)
		return CKPT_SAFE_IN_2_14;
	for (size_t i = 0; i < sizeof(old) / sizeof(old[0]); i++)
		if (!strcmp(old[i], name))
			return ALL;
	return NEW;
}

/* "FloatTensor" of a module of torch; *BOOL: it is BoolTensor, which has no sparse one. */
static bool is_tensor_class(const char *name, bool *is_bool)
{
	static const char *const types[] = { "BFloat16", "Bool", "Byte", "Char", "Double",
					     "Float",	 "Half", "Int",	 "Long", "Short" };
	size_t len = strlen(name);

	*is_bool = !strcmp(name, "BoolTensor");
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (len == strlen(types[i]) + 6 && !strncmp(name, types[i], len - 6) &&
		    !strcmp(name + len - 6, "Tensor"))
			return true;
	return false;
}

static unsigned torch_in(const char *module, const char *name)
{
	bool cpu = !strcmp(module, "torch"), cuda = !strcmp(module, "torch.cuda"),
	     sparse = !strcmp(module, "torch.sparse") || !strcmp(module, "torch.cuda.sparse"),
	     is_bool;
	enum ckpt_dtype storage = ckpt_dtype_of_storage(name);

	if ((cpu || cuda || sparse) && is_tensor_class(name, &is_bool))
		return sparse && is_bool ? 0 : ALL;
	if (cpu && storage != CKPT_DTYPE_UNKNOWN && !strstr(name, "Untyped"))
		return ALL;
	if (cuda && storage != CKPT_DTYPE_UNKNOWN && name[0] != 'Q' && !strstr(name, "Untyped"))
		return ALL;
	return cpu ? dtype_in(name) : 0;
}

unsigned ckpt_safe_global_in(const char *module, const char *name)
{
	bool python2 = !strcmp(module, "__builtin__");

	if (python2)
		module = "builtins";
	for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++)
		if (!strcmp(safe[i].module, module) && !strcmp(safe[i].name, name))
			return safe[i].in;
	return is_exception(module, name) ? CKPT_SAFE_IN_2_14 : torch_in(module, name);
}

bool ckpt_is_safe_global(const char *module, const char *name)
{
	return (ckpt_safe_global_in(module, name) & NEW) == NEW;
}
