/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_TABLE_H
#define CKPT_SCAN_TABLE_H

#include "pickle/value.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The language of files that are `plain`, which docs/scan.md defines: values have types, and each
 * operation that a pickle may do (call, BUILD, append, set items) is a row here. What is in no row
 * is not plain. There are no wildcards.
 */

/*
 * What a value is, a bit each. Those of literals, which opcodes make and nothing was called for,
 * are 1 << enum ckpt_value_kind.
 */
#define CKPT_TYPE_LITERAL(kind) (UINT64_C(1) << (kind))
enum { CKPT_TYPE_FIRST = CKPT_GLOBAL };
#define CKPT_TYPE_BIT(n) (UINT64_C(1) << (CKPT_TYPE_FIRST + (n)))

#define CKPT_TYPE_CLASS CKPT_TYPE_BIT(0)      /* a class of the table */
/* a function of it, which is never a value but where a row says so */
#define CKPT_TYPE_FUNCTION CKPT_TYPE_BIT(1)
#define CKPT_TYPE_STRANGER CKPT_TYPE_BIT(2)   /* a class or function that is not in the table */
#define CKPT_TYPE_OBJECT CKPT_TYPE_BIT(3)     /* what a stranger makes */
#define CKPT_TYPE_UNKNOWN CKPT_TYPE_BIT(4)    /* only running the file would show it */
#define CKPT_TYPE_DTYPE CKPT_TYPE_BIT(5)      /* torch.float32 */
#define CKPT_TYPE_LAYOUT CKPT_TYPE_BIT(6)
#define CKPT_TYPE_CONSTANT CKPT_TYPE_BIT(7)   /* torch.contiguous_format, Ellipsis */
#define CKPT_TYPE_QSCHEME CKPT_TYPE_BIT(8)
#define CKPT_TYPE_STORAGE CKPT_TYPE_BIT(9)
/* torch.Tensor or Parameter itself, without attributes */
#define CKPT_TYPE_TENSOR CKPT_TYPE_BIT(10)
#define CKPT_TYPE_DRESSED CKPT_TYPE_BIT(11)   /* a tensor with attributes, or of another class */
#define CKPT_TYPE_SIZE CKPT_TYPE_BIT(12)
#define CKPT_TYPE_DEVICE CKPT_TYPE_BIT(13)
/* OrderedDict, defaultdict: all that is in it was set by opcodes */
#define CKPT_TYPE_FILLED CKPT_TYPE_BIT(14)
/* a dict or tuple that a call makes, also one of a class that is a tuple: nobody looks into it */
#define CKPT_TYPE_HIDDEN CKPT_TYPE_BIT(15)
#define CKPT_TYPE_CODED CKPT_TYPE_BIT(16)     /* bytes, as protocol 2 has them */
#define CKPT_TYPE_NUMPY_DTYPE CKPT_TYPE_BIT(17)
#define CKPT_TYPE_NUMPY_ARRAY CKPT_TYPE_BIT(18)
#define CKPT_TYPE_TIMEDELTA CKPT_TYPE_BIT(19)
#define CKPT_TYPE_TIMEZONE CKPT_TYPE_BIT(20)
/* sets, numbers, dates, paths, ranges ...: no row takes one */
#define CKPT_TYPE_VALUE CKPT_TYPE_BIT(21)
/* shapes of arguments that are looked into */
/* up to 64 integers in a literal tuple or list, or torch.Size of them */
#define CKPT_TYPE_SHAPE CKPT_TYPE_BIT(22)
#define CKPT_TYPE_HOOKS CKPT_TYPE_BIT(23)     /* None, or an empty dict */
/* None, or texts and truth values in a literal dict */
#define CKPT_TYPE_METADATA CKPT_TYPE_BIT(24)
#define CKPT_TYPE_SPARSE CKPT_TYPE_BIT(25)    /* (tensor, ..., shape[, bool]) */
#define CKPT_TYPE_QUANTIZER CKPT_TYPE_BIT(26) /* (qscheme, numbers or tensors ...) */
/* a literal dict, or a literal list or tuple of literal pairs */
#define CKPT_TYPE_PAIRS CKPT_TYPE_BIT(27)
/* a text of a number, of up to 4300 characters, without an exponent */
#define CKPT_TYPE_DIGITS CKPT_TYPE_BIT(28)
#define CKPT_TYPE_LATIN1 CKPT_TYPE_BIT(29)    /* 'latin1', and nothing else that means the same */
#define CKPT_TYPE_ZERO CKPT_TYPE_BIT(30)      /* (0,) */
#define CKPT_TYPE_SMALL_BIGINT CKPT_TYPE_BIT(31) /* an integer of up to 4300 digits */
#define CKPT_TYPE_MODULE CKPT_TYPE_BIT(32)    /* torch._utils.torch */
/* what getattr gives of a stranger: a class in a class, a member of an enumeration */
#define CKPT_TYPE_ATTRIBUTE CKPT_TYPE_BIT(33)
/* a literal tuple, list or set: each item is hashed */
#define CKPT_TYPE_KEYS CKPT_TYPE_BIT(34)
/* b'b' or 'b', the dtype of an array before its state is set */
#define CKPT_TYPE_LETTER_B CKPT_TYPE_BIT(35)
/*
 * a text of up to 64 bytes: torch 1.7 takes a long one of a device apart by a regular expression,
 * until the stack ends
 */
#define CKPT_TYPE_SHORT CKPT_TYPE_BIT(36)
/*
 * the name of a device for which torch makes tensors, or says that it is not there; or torch.device
 * of one
 */
#define CKPT_TYPE_ON_DEVICE CKPT_TYPE_BIT(37)
/* the text of a type of TorchScript, no deeper than torch reads */
#define CKPT_TYPE_TAG CKPT_TYPE_BIT(38)
/* a dtype of numbers as they are: quantized ones are nothing without a quantizer */
#define CKPT_TYPE_NUMBERS_DTYPE CKPT_TYPE_BIT(39)
/* an array of numpy of numbers: torch divides by the size of an item before it looks what it is */
#define CKPT_TYPE_NUMBERS_ARRAY CKPT_TYPE_BIT(40)
/* a shape that torch can count with: of a tensor's sizes, where no storage says whether they fit */
#define CKPT_TYPE_SIZES CKPT_TYPE_BIT(41)
/* a literal list or tuple of numbers, truth values and texts: of a tensor in it Python would ask the number */
#define CKPT_TYPE_SCALARS CKPT_TYPE_BIT(42)
#define CKPT_TYPE_LITERAL_SHAPE CKPT_TYPE_BIT(43) /* a shape that no call makes */
/* a class of which torch makes tensors, or one of a package, which may be such: of another, torch 1.8 writes over what an object of it has */
#define CKPT_TYPE_TENSOR_CLASS CKPT_TYPE_BIT(44)
#define CKPT_TYPE_ANY_CLASS (CKPT_TYPE_CLASS | CKPT_TYPE_STRANGER | CKPT_TYPE_ATTRIBUTE)

/* Whatever is data: for arguments that are only kept. */
#define CKPT_TYPE_DATA \
	((CKPT_TYPE_CLASS - 1) | CKPT_TYPE_DTYPE | CKPT_TYPE_LAYOUT | CKPT_TYPE_CONSTANT | CKPT_TYPE_QSCHEME | CKPT_TYPE_STORAGE | \
	 CKPT_TYPE_TENSOR | CKPT_TYPE_DRESSED | CKPT_TYPE_SIZE | CKPT_TYPE_DEVICE | CKPT_TYPE_FILLED | CKPT_TYPE_HIDDEN | \
	 CKPT_TYPE_CODED | CKPT_TYPE_NUMPY_DTYPE | CKPT_TYPE_NUMPY_ARRAY | CKPT_TYPE_TIMEDELTA | CKPT_TYPE_TIMEZONE | CKPT_TYPE_VALUE)

/* What may be done to a value behind its call, once: BUILD is the end of it. */
enum ckpt_scan_then {
	CKPT_THEN_NOTHING,
	CKPT_THEN_ATTRIBUTES,	/* BUILD with attributes */
	CKPT_THEN_ITEMS,	/* APPEND, and then attributes */
	CKPT_THEN_PAIRS,	/* SETITEM, and then attributes */
	CKPT_THEN_TENSOR,	/* (storage, offset, size, stride), or what a Variable had */
	CKPT_THEN_NUMPY_DTYPE,	/* before anything takes it */
	CKPT_THEN_NUMPY_ARRAY,
	CKPT_THEN_GENERATOR,	/* (seed, offset, tensor) */
	CKPT_THEN_UUID,		/* {'int': ...} */
	CKPT_THEN_INDEX,	/* the number of the next item */
	CKPT_THEN_BYTES,	/* (bytes, position, None) */
};

enum { CKPT_SCAN_MOST_ARGS = 8 };

struct ckpt_scan_rule;

/* What the table says of a name, which is one of today; NULL: it is not in it. */
const struct ckpt_scan_rule *ckpt_scan_find_row(const char *module, const char *name);

#endif
