/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What torch, numpy and Python's own types write for data. The arguments are those of torch 0.1 to
 * 2.14, numpy 1 and 2 and CPython 2.7 to 3.14, seen in files and in their sources; docs/scan.md
 * says the same in words, and tests/scan/language.py holds it against the real ones.
 */
#include "base/text.h"
#include "scan/row_index.h"

#include <pthread.h>
#include <string.h>

#define NONE CKPT_TYPE_LITERAL(CKPT_NONE)
#define BOOL CKPT_TYPE_LITERAL(CKPT_BOOL)
#define INT CKPT_TYPE_LITERAL(CKPT_INT)
#define FLOAT CKPT_TYPE_LITERAL(CKPT_FLOAT)
#define TEXT (CKPT_TYPE_LITERAL(CKPT_STR) | CKPT_TYPE_LITERAL(CKPT_PY2_STR))
#define BYTES (CKPT_TYPE_LITERAL(CKPT_BYTES) | CKPT_TYPE_LITERAL(CKPT_PY2_STR) | CKPT_TYPE_CODED)
#define BYTEARRAY CKPT_TYPE_LITERAL(CKPT_BYTEARRAY)
#define TUPLE CKPT_TYPE_LITERAL(CKPT_TUPLE)
#define LIST CKPT_TYPE_LITERAL(CKPT_LIST)
#define DICT CKPT_TYPE_LITERAL(CKPT_DICT)
#define SETS (CKPT_TYPE_LITERAL(CKPT_SET) | CKPT_TYPE_LITERAL(CKPT_FROZENSET))
#define INTEGER (INT | CKPT_TYPE_SMALL_BIGINT)
#define SCALAR (NONE | BOOL | INTEGER | FLOAT | TEXT)
#define ANY CKPT_TYPE_DATA

#define CLASS CKPT_TYPE_CLASS
#define FUNCTION CKPT_TYPE_FUNCTION
#define STRANGER CKPT_TYPE_STRANGER
#define OBJECT CKPT_TYPE_OBJECT
#define ANY_CLASS CKPT_TYPE_ANY_CLASS
#define TENSOR_CLASS CKPT_TYPE_TENSOR_CLASS
#define DTYPE CKPT_TYPE_DTYPE
#define LAYOUT CKPT_TYPE_LAYOUT
#define CONSTANT CKPT_TYPE_CONSTANT
#define QSCHEME CKPT_TYPE_QSCHEME
#define STORAGE CKPT_TYPE_STORAGE
#define TENSOR CKPT_TYPE_TENSOR
#define DRESSED CKPT_TYPE_DRESSED
#define SIZE CKPT_TYPE_SIZE
#define DEVICE CKPT_TYPE_DEVICE
#define FILLED CKPT_TYPE_FILLED
#define HIDDEN CKPT_TYPE_HIDDEN
#define CODED CKPT_TYPE_CODED
#define NUMPY_DTYPE CKPT_TYPE_NUMPY_DTYPE
#define NUMPY_ARRAY CKPT_TYPE_NUMPY_ARRAY
#define TIMEDELTA CKPT_TYPE_TIMEDELTA
#define TIMEZONE CKPT_TYPE_TIMEZONE
#define VALUE CKPT_TYPE_VALUE
#define SHAPE CKPT_TYPE_SHAPE
#define LITERAL_SHAPE CKPT_TYPE_LITERAL_SHAPE
#define HOOKS CKPT_TYPE_HOOKS
#define METADATA CKPT_TYPE_METADATA
#define SPARSE CKPT_TYPE_SPARSE
#define QUANTIZER CKPT_TYPE_QUANTIZER
#define PAIRS CKPT_TYPE_PAIRS
#define KEYS CKPT_TYPE_KEYS
#define LETTER_B CKPT_TYPE_LETTER_B
#define DIGITS CKPT_TYPE_DIGITS
#define LATIN1 CKPT_TYPE_LATIN1
#define SHORT CKPT_TYPE_SHORT
#define ON_DEVICE CKPT_TYPE_ON_DEVICE
#define TAG CKPT_TYPE_TAG
#define ZERO CKPT_TYPE_ZERO
#define NUMBERS_DTYPE CKPT_TYPE_NUMBERS_DTYPE
#define NUMBERS_ARRAY CKPT_TYPE_NUMBERS_ARRAY
#define SIZES CKPT_TYPE_SIZES
#define SCALARS CKPT_TYPE_SCALARS

/*
 * A function, a class, and what is nothing but a value. CALL: enum ckpt_scan_call; LEAST and MOST
 * arguments. COST of what is large by itself, and GRADIENT of what it costs on top where a tensor
 * has a gradient, are bytes of memory: see amounts.c.
 */
#define FUNC(module, name, call, least, most, result, ...) \
	{ \
		module, name, CKPT_CALL_##call, least, most, CKPT_SCAN_DATA, false, true, \
			CKPT_THEN_NOTHING, 0, 0, result, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define TYPE(module, name, least, most, then, result, ...) \
	{ \
		module, name, CKPT_CALL_PLAIN, least, most, CKPT_SCAN_DATA, false, false, \
			CKPT_THEN_##then, 0, 0, result, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define HEAVY_FUNC(module, name, cost, gradient, call, least, most, result, ...) \
	{ \
		module, name, CKPT_CALL_##call, least, most, CKPT_SCAN_DATA, false, true, \
			CKPT_THEN_NOTHING, cost, gradient, result, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define HEAVY_TYPE(module, name, cost, gradient, least, most, then, result, ...) \
	{ \
		module, name, CKPT_CALL_PLAIN, least, most, CKPT_SCAN_DATA, false, false, \
			CKPT_THEN_##then, cost, gradient, result, \
		{ \
			__VA_ARGS__ \
		} \
	}
#define NAME(module, name, what) \
	{ \
		module, name, CKPT_CALL_NEVER, 0, 0, CKPT_SCAN_DATA, false, false, \
			CKPT_THEN_NOTHING, 0, 0, what, \
		{ \
			0 \
		} \
	}

/* clang-format off */
static const struct ckpt_scan_rule rows[] = {
	/* tensors */
	HEAVY_FUNC("torch._utils", "_rebuild_tensor", 580, 0, TENSOR, 4, 4, TENSOR, STORAGE, INT, SHAPE, SHAPE),
	HEAVY_FUNC("torch._utils", "_rebuild_tensor_v2", 660, 0, TENSOR, 6, 7, TENSOR, STORAGE, INT, SHAPE, SHAPE, BOOL, HOOKS, METADATA),
	HEAVY_FUNC("torch._utils", "_rebuild_tensor_v3", 660, 0, TENSOR_OF_DTYPE, 7, 8, TENSOR, STORAGE, INT, SHAPE, SHAPE, BOOL, HOOKS, NUMBERS_DTYPE, METADATA),
	HEAVY_FUNC("torch._utils", "_rebuild_parameter", 740, 0, PLAIN, 3, 3, TENSOR, TENSOR, BOOL, HOOKS),
	HEAVY_FUNC("torch._utils", "_rebuild_parameter_with_state", 740, 0, WITH_STATE, 4, 4, DRESSED, TENSOR, BOOL, HOOKS, ANY),
	HEAVY_FUNC("torch._utils", "_rebuild_qtensor", 740, 0, TENSOR_WHOLE, 7, 7, TENSOR, STORAGE, INT, SHAPE, SHAPE, QUANTIZER, BOOL, HOOKS),
	HEAVY_FUNC("torch._utils", "_rebuild_sparse_tensor", 970, 1040, OF_PLACES, 2, 2, TENSOR, LAYOUT, SPARSE),
	HEAVY_FUNC("torch._utils", "_rebuild_sparse_csr_tensor", 450, 1130, OF_PLACES, 2, 2, TENSOR, LAYOUT, SPARSE),
	HEAVY_FUNC("torch._utils", "_rebuild_nested_tensor", 810, 560, OF_PLACES, 4, 4, TENSOR, TENSOR),
	HEAVY_FUNC("torch._utils", "_rebuild_meta_tensor_no_storage", 510, 200, PLAIN, 4, 4, TENSOR, NUMBERS_DTYPE, SIZES, SHAPE, BOOL),
	HEAVY_FUNC("torch._utils", "_rebuild_device_tensor_from_numpy", 740, 0, OF_TENSORS, 4, 4, TENSOR, NUMBERS_ARRAY, NUMBERS_DTYPE, ON_DEVICE, BOOL),
	HEAVY_FUNC("torch._utils", "_rebuild_device_tensor_from_cpu_tensor", 740, 0, OF_TENSORS, 4, 4, TENSOR, TENSOR, NUMBERS_DTYPE, ON_DEVICE, BOOL),
	HEAVY_FUNC("torch._utils", "_rebuild_xla_tensor", 740, 0, OF_TENSORS, 4, 4, TENSOR, NUMBERS_ARRAY, NUMBERS_DTYPE, ON_DEVICE, BOOL),
	HEAVY_FUNC("torch._utils", "_rebuild_mlc_tensor", 740, 0, OF_TENSORS, 4, 4, TENSOR, NUMBERS_ARRAY, NUMBERS_DTYPE, ON_DEVICE, BOOL),
	HEAVY_FUNC("torch._utils", "_rebuild_wrapper_subclass", 500, 190, PLAIN, 8, 8, DRESSED, TENSOR_CLASS, NUMBERS_DTYPE, SIZES, SHAPE, INT, LAYOUT, ON_DEVICE, BOOL),
	HEAVY_FUNC("torch._tensor", "_rebuild_from_type_v2", 800, 1030, FROM_TYPE, 4, 4, DRESSED, FUNCTION | STRANGER, TENSOR_CLASS, TUPLE, ANY),
	HEAVY_FUNC("torch._tensor", "_rebuild_from_type", 800, 1030, FROM_TYPE, 4, 4, DRESSED, FUNCTION | STRANGER, TENSOR_CLASS, TUPLE, ANY),
	HEAVY_FUNC("torch.tensor", "_rebuild_from_type", 800, 1030, FROM_TYPE, 4, 4, DRESSED, FUNCTION | STRANGER, TENSOR_CLASS, TUPLE, ANY),
	HEAVY_FUNC("torch.storage", "_load_from_bytes", 3400, 0, FROM_BYTES, 1, 1, STORAGE, BYTES),
	FUNC("torch.serialization", "_get_layout", PLAIN, 1, 1, LAYOUT, TEXT),
	TYPE("torch.serialization", "StorageType", 0, 0, ATTRIBUTES, VALUE),
	TYPE("torch", "Size", 0, 1, NOTHING, SIZE, LITERAL_SHAPE),
	TYPE("torch", "device", 1, 2, NOTHING, DEVICE, SHORT, INT),
	HEAVY_TYPE("torch", "Tensor", 730, 0, 0, 0, TENSOR, TENSOR),
	HEAVY_TYPE("torch.autograd.variable", "Variable", 730, 0, 0, 0, TENSOR, TENSOR),
	HEAVY_TYPE("torch.nn.parameter", "Parameter", 820, 0, 0, 2, TENSOR, TENSOR, TENSOR, BOOL),
	HEAVY_TYPE("torch.nn.parameter", "Buffer", 1050, 0, 0, 2, TENSOR, TENSOR, TENSOR, BOOL),
	HEAVY_TYPE("torch.nn.parameter", "UninitializedParameter", 820, 0, 0, 1, ATTRIBUTES, DRESSED, BOOL),
	HEAVY_TYPE("torch.nn.parameter", "UninitializedBuffer", 780, 240, 0, 1, ATTRIBUTES, DRESSED, BOOL),
	HEAVY_TYPE("torch", "Generator", 2680, 0, 0, 1, GENERATOR, VALUE, ON_DEVICE),
	HEAVY_TYPE("torch._C", "Generator", 2680, 0, 0, 1, GENERATOR, VALUE, ON_DEVICE),
	TYPE("torch.torch_version", "TorchVersion", 1, 1, ATTRIBUTES, VALUE, TEXT),
	NAME("torch._utils", "torch", CKPT_TYPE_MODULE), /* see CKPT_CALL_GETATTR */
	NAME("torch", "per_tensor_affine", QSCHEME),
	NAME("torch", "per_tensor_symmetric", QSCHEME),
	NAME("torch", "per_channel_affine", QSCHEME),
	NAME("torch", "per_channel_symmetric", QSCHEME),
	NAME("torch", "per_channel_affine_float_qparams", QSCHEME),
	NAME("torch", "strided", LAYOUT),
	NAME("torch", "sparse_coo", LAYOUT),
	NAME("torch", "contiguous_format", CONSTANT),
	NAME("torch", "channels_last", CONSTANT),
	NAME("torch", "channels_last_3d", CONSTANT),
	NAME("torch", "preserve_format", CONSTANT),
	/* as protocols 4 and 5 have it */
	NAME("torch._utils", "torch.contiguous_format", CONSTANT),
	NAME("torch._utils", "torch.channels_last", CONSTANT),
	NAME("torch._utils", "torch.channels_last_3d", CONSTANT),
	NAME("torch._utils", "torch.preserve_format", CONSTANT),
	NAME("torch.storage", "UntypedStorage", CLASS),
	NAME("torch.storage", "TypedStorage", CLASS),
	NAME("torch.distributed.tensor", "DTensor", CLASS),
	NAME("torch.distributed._tensor", "DTensor", CLASS),
	NAME("torch.distributed._tensor.api", "DTensor", CLASS),
	/*
	 * what C++ writes for its lists, and for dicts that have a type: they give back what they
	 * are given
	 */
	FUNC("torch.jit._pickle", "build_intlist", PLAIN, 1, 1, VALUE, LIST),
	FUNC("torch.jit._pickle", "build_doublelist", PLAIN, 1, 1, VALUE, LIST),
	FUNC("torch.jit._pickle", "build_boollist", PLAIN, 1, 1, VALUE, LIST),
	FUNC("torch.jit._pickle", "build_tensorlist", PLAIN, 1, 1, VALUE, LIST),
	FUNC("torch.jit._pickle", "restore_type_tag", PLAIN, 2, 2, HIDDEN, LIST | DICT, TAG),
	FUNC("torch.jit._pickle", "build_tensor_from_id", PLAIN, 1, 1, VALUE, INT),
	/* containers */
	TYPE("collections", "OrderedDict", 0, 1, PAIRS, FILLED, PAIRS),
	{ "collections", "defaultdict", CKPT_CALL_FACTORY, 0, 2, CKPT_SCAN_DATA, false, false, CKPT_THEN_PAIRS, 0, 0, FILLED, { NONE | ANY_CLASS, PAIRS } },
	/* of a list it hashes each item whole */
	TYPE("collections", "Counter", 0, 1, PAIRS, HIDDEN, DICT),
	HEAVY_TYPE("collections", "deque", 790, 0, 0, 2, ITEMS, VALUE, LIST | TUPLE, NONE | INT),
	TYPE("builtins", "set", 0, 1, NOTHING, VALUE, KEYS),
	TYPE("builtins", "frozenset", 0, 1, NOTHING, VALUE, KEYS),
	TYPE("builtins", "list", 0, 1, ITEMS, VALUE, LIST | TUPLE | SETS),
	TYPE("builtins", "tuple", 0, 1, NOTHING, HIDDEN, LIST | TUPLE),
	TYPE("builtins", "dict", 0, 1, PAIRS, HIDDEN, PAIRS),
	/* texts, bytes, numbers */
	FUNC("_codecs", "encode", PLAIN, 2, 2, CODED, TEXT, LATIN1),
	TYPE("builtins", "bytes", 0, 1, NOTHING, CODED, SCALARS | BYTES),
	TYPE("builtins", "bytearray", 0, 2, NOTHING, VALUE, TEXT | BYTES | SCALARS, LATIN1),
	TYPE("builtins", "str", 0, 1, NOTHING, VALUE, TEXT),
	TYPE("builtins", "unicode", 0, 1, NOTHING, VALUE, TEXT),
	TYPE("builtins", "complex", 0, 2, NOTHING, VALUE, INT | FLOAT),
	TYPE("builtins", "int", 0, 1, NOTHING, VALUE, INTEGER | BOOL | FLOAT | DIGITS),
	TYPE("builtins", "long", 0, 1, NOTHING, VALUE, INTEGER | BOOL | FLOAT | DIGITS),
	TYPE("builtins", "float", 0, 1, NOTHING, VALUE, INT | BOOL | FLOAT | DIGITS),
	TYPE("builtins", "bool", 0, 1, NOTHING, VALUE, SCALAR),
	TYPE("builtins", "slice", 1, 3, NOTHING, VALUE, SCALAR),
	TYPE("builtins", "range", 1, 3, NOTHING, VALUE, INTEGER),
	TYPE("builtins", "xrange", 1, 3, NOTHING, VALUE, INTEGER),
	TYPE("builtins", "object", 0, 0, NOTHING, VALUE, NONE),
	FUNC("builtins", "type", PLAIN, 1, 1, CLASS, NONE | CONSTANT),
	NAME("builtins", "Ellipsis", CONSTANT),
	NAME("builtins", "NotImplemented", CONSTANT),
	NAME("builtins", "NoneType", CLASS),
	TYPE("decimal", "Decimal", 1, 1, NOTHING, VALUE, TEXT),
	TYPE("fractions", "Fraction", 1, 2, NOTHING, VALUE, INTEGER | DIGITS),
	TYPE("array", "array", 2, 2, ATTRIBUTES, VALUE, TEXT, SCALARS),
	FUNC("array", "_array_reconstructor", PLAIN, 4, 4, VALUE, CLASS, TEXT, INT, BYTES),
	TYPE("itertools", "count", 0, 2, NOTHING, VALUE, INTEGER | FLOAT),
	{ "builtins", "iter", CKPT_CALL_PLAIN, 1, 1, CKPT_SCAN_DATA, false, true, CKPT_THEN_INDEX, 0, 0, VALUE, { LIST | TUPLE } },
	TYPE("_io", "BytesIO", 0, 0, BYTES, VALUE, NONE),
	/* times, names of things */
	/* what the objects of these show is read without a look at where it lies */
	{ "builtins", "UnicodeDecodeError", CKPT_CALL_RANGE, 5, 5, CKPT_SCAN_DATA, false, false, CKPT_THEN_NOTHING, 0, 0, VALUE, { TEXT, BYTES, INT, INT, TEXT } },
	{ "builtins", "UnicodeEncodeError", CKPT_CALL_RANGE, 5, 5, CKPT_SCAN_DATA, false, false, CKPT_THEN_NOTHING, 0, 0, VALUE, { TEXT, TEXT, INT, INT, TEXT } },
	{ "builtins", "UnicodeTranslateError", CKPT_CALL_RANGE, 4, 4, CKPT_SCAN_DATA, false, false, CKPT_THEN_NOTHING, 0, 0, VALUE, { TEXT, INT, INT, TEXT } },
	{ "datetime", "datetime", CKPT_CALL_DATETIME, 1, 8, CKPT_SCAN_DATA, false, false, CKPT_THEN_NOTHING, 0, 0, VALUE, { BYTES | TEXT | INT, INT | NONE | TIMEZONE | OBJECT } },
	{ "datetime", "date", CKPT_CALL_DATE, 1, 3, CKPT_SCAN_DATA, false, false, CKPT_THEN_NOTHING, 0, 0, VALUE, { BYTES | TEXT | INT, INT } },
	{ "datetime", "time", CKPT_CALL_TIME, 1, 5, CKPT_SCAN_DATA, false, false, CKPT_THEN_NOTHING, 0, 0, VALUE, { BYTES | TEXT | INT, INT | NONE | TIMEZONE | OBJECT } },
	TYPE("datetime", "timedelta", 0, 3, NOTHING, TIMEDELTA, INT),
	TYPE("datetime", "timezone", 1, 2, NOTHING, TIMEZONE, TIMEDELTA, TEXT),
	TYPE("time", "struct_time", 1, 2, NOTHING, VALUE, TUPLE, DICT),
	TYPE("uuid", "UUID", 0, 0, UUID, VALUE),
	TYPE("pathlib", "PosixPath", 0, -1, NOTHING, VALUE, TEXT),
	TYPE("pathlib", "PurePosixPath", 0, -1, NOTHING, VALUE, TEXT),
	TYPE("pathlib", "WindowsPath", 0, -1, NOTHING, VALUE, TEXT),
	TYPE("pathlib", "PureWindowsPath", 0, -1, NOTHING, VALUE, TEXT),
	/* makes a tuple of what it gets, which may be far longer than the file */
	TYPE("builtins", "SyntaxError", 0, 1, NOTHING, VALUE, TEXT),
	TYPE("builtins", "IndentationError", 0, 1, NOTHING, VALUE, TEXT),
	TYPE("builtins", "TabError", 0, 1, NOTHING, VALUE, TEXT),
	{ "builtins", "ExceptionGroup", CKPT_CALL_GROUP, 2, 2, CKPT_SCAN_DATA, false, false, CKPT_THEN_ATTRIBUTES, 0, 0, VALUE, { TEXT, LIST | TUPLE } },
	{ "builtins", "BaseExceptionGroup", CKPT_CALL_GROUP, 2, 2, CKPT_SCAN_DATA, false, false, CKPT_THEN_ATTRIBUTES, 0, 0, VALUE, { TEXT, LIST | TUPLE } },
	/* numpy: what its dtypes say is looked at in numpy.c */
	{ "numpy.core.multiarray", "_reconstruct", CKPT_CALL_PLAIN, 3, 3, CKPT_SCAN_DATA, false, true, CKPT_THEN_NUMPY_ARRAY, 0, 0, NUMPY_ARRAY, { ANY_CLASS, ZERO, LETTER_B } },
	FUNC("numpy.core.multiarray", "scalar", NUMPY_SCALAR, 2, 2, VALUE, NUMPY_DTYPE, BYTES),
	HEAVY_FUNC("numpy.core.numeric", "_frombuffer", 600, 0, NUMPY_BUFFER, 4, 5, NUMPY_ARRAY, BYTES | BYTEARRAY, NUMPY_DTYPE, SHAPE, TEXT, SHAPE),
	NAME("numpy", "ndarray", CLASS),
	{ "numpy", "dtype", CKPT_CALL_NUMPY_DTYPE, 1, 3, CKPT_SCAN_DATA, false, false, CKPT_THEN_NUMPY_DTYPE, 0, 0, NUMPY_DTYPE, { TEXT, BOOL | INT } },
};
/* clang-format on */

/* ---- names of one kind, of which there are many: each of them, and no others ---- */

static const struct ckpt_scan_rule return_type =
	TYPE("torch.return_types", "", 1, 2, NOTHING, HIDDEN, LIST | TUPLE, DICT),
				   exception = TYPE("builtins", "", 0, -1, ATTRIBUTES, VALUE, ANY);

/* Of torch 1.8 to 2.14. */
static const char *const return_types[] = {
	"_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
	"_fused_moving_avg_obs_fq_helper",
	"_linalg_det",
	"_linalg_eigh",
	"_linalg_slogdet",
	"_linalg_solve_ex",
	"_linalg_svd",
	"_lu_with_info",
	"_scaled_dot_product_cudnn_attention",
	"_scaled_dot_product_efficient_attention",
	"_scaled_dot_product_flash_attention",
	"_scaled_dot_product_flash_attention_for_cpu",
	"_unpack_dual",
	"aminmax",
	"cummax",
	"cummin",
	"frexp",
	"geqrf",
	"histogram",
	"histogramdd",
	"kthvalue",
	"linalg_cholesky_ex",
	"linalg_eig",
	"linalg_eigh",
	"linalg_inv_ex",
	"linalg_ldl_factor",
	"linalg_ldl_factor_ex",
	"linalg_lstsq",
	"linalg_lu",
	"linalg_lu_factor",
	"linalg_lu_factor_ex",
	"linalg_polar",
	"linalg_qr",
	"linalg_slogdet",
	"linalg_solve_ex",
	"linalg_svd",
	"lstsq",
	"lu_unpack",
	"max",
	"median",
	"min",
	"mode",
	"nanmedian",
	"qr",
	"slogdet",
	"solve",
	"sort",
	"svd",
	"symeig",
	"topk",
	"triangular_solve", NULL,
};

/* Python's own, of 2.7 to 3.14: their classes keep what they are given. */
static const char *const exceptions[] = {
	"ArithmeticError",
	"AssertionError",
	"AttributeError",
	"BaseException",
	"BlockingIOError",
	"BrokenPipeError",
	"BufferError",
	"BytesWarning",
	"ChildProcessError",
	"ConnectionAbortedError",
	"ConnectionError",
	"ConnectionRefusedError",
	"ConnectionResetError",
	"DeprecationWarning",
	"EOFError",
	"EncodingWarning",
	"EnvironmentError",
	"Exception",
	"FileExistsError",
	"FileNotFoundError",
	"FloatingPointError",
	"FutureWarning",
	"GeneratorExit",
	"IOError",
	"ImportError",
	"ImportWarning",
	"IndexError",
	"InterruptedError",
	"IsADirectoryError",
	"KeyError",
	"KeyboardInterrupt",
	"LookupError",
	"MemoryError",
	"ModuleNotFoundError",
	"NameError",
	"NotADirectoryError",
	"NotImplementedError",
	"OSError",
	"OverflowError",
	"PendingDeprecationWarning",
	"PermissionError",
	"ProcessLookupError",
	"PythonFinalizationError",
	"RecursionError",
	"ReferenceError",
	"ResourceWarning",
	"RuntimeError",
	"RuntimeWarning",
	"StandardError",
	"StopAsyncIteration",
	"StopIteration",
	"SyntaxWarning",
	"SystemError",
	"SystemExit",
	"TimeoutError",
	"TypeError",
	"UnboundLocalError",
	"UnicodeError",
	"UnicodeWarning",
	"UserWarning",
	"ValueError",
	"Warning",
	"ZeroDivisionError",
	NULL,
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct ckpt_row_index index_of_rows;

static void index_rows(void)
{
	ckpt_row_index_build(&index_of_rows, rows, sizeof(rows) / sizeof(rows[0]));
}

const struct ckpt_scan_rule *ckpt_scan_find_row(const char *module, const char *name)
{
	const struct ckpt_scan_rule *row;

	pthread_once(&once, index_rows);
	row = ckpt_row_index_find(&index_of_rows, module, name);
	if (row)
		return row;
	if (!strcmp(module, "torch.return_types") && ckpt_is_one_of(name, return_types))
		return &return_type;
	if (!strcmp(module, "builtins") && ckpt_is_one_of(name, exceptions))
		return &exception;
	return NULL;
}
