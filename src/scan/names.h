/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CKPT_SCAN_NAMES_H
#define CKPT_SCAN_NAMES_H

#include "scan/table.h"

#include <ckpt/scan.h>

/*
 * What is known of a class or function by its name alone. Harmless is only what is listed as
 * harmless; of everything else the question is only how bad it may be.
 */

/* What a call of a harmless one has to look like, to be understood. */
enum ckpt_scan_call {
	CKPT_CALL_NEVER,       /* it is no class or function, or nobody calls it */
	CKPT_CALL_PLAIN,       /* nothing but what the arguments may be is asked */
	CKPT_CALL_GETATTR,     /* getattr(global, 'name') */
	CKPT_CALL_GETITEM,     /* operator.getitem(typing.Union, ...) */
	CKPT_CALL_PARTIAL,     /* functools.partial(function) */
	CKPT_CALL_NEW,	       /* copyreg.__newobj__(class, ...) and the like: makes an instance */
	CKPT_CALL_FROM_TYPE,   /* _rebuild_from_type_v2(function, class, arguments, state): calls */
	CKPT_CALL_WITH_STATE,  /* _rebuild_parameter_with_state(tensor, bool, hooks, state) */
	CKPT_CALL_FROM_BYTES,  /* _load_from_bytes(bytes): a file of torch */
	/*
	 * (storage, offset, size, stride, ...): it lies in the storage, or torch makes that larger
	 */
	CKPT_CALL_TENSOR,
	CKPT_CALL_TENSOR_OF_DTYPE, /* the same with a dtype of its own, argument 6 */
	/* the same, of which all items are made at once, strides or not */
	CKPT_CALL_TENSOR_WHOLE,
	CKPT_CALL_OF_TENSORS,	   /* makes a tensor of others, or of arrays, as large as these */
	CKPT_CALL_OF_PLACES,	   /* the same, and numbers in one of them are places in another */
	CKPT_CALL_FACTORY,	   /* keeps its first argument, and calls it for keys that are not there */
	/* (..., bytes or text, start, end, reason): the range lies in these */
	CKPT_CALL_RANGE,
	CKPT_CALL_GROUP,	   /* (text, exceptions): each of them is in one group, once */
	CKPT_CALL_DATE,		   /* date(bytes) and the like, or numbers */
	CKPT_CALL_TIME,
	CKPT_CALL_DATETIME,
	CKPT_CALL_NUMPY_SCALAR, /* scalar(dtype, bytes) */
	CKPT_CALL_NUMPY_BUFFER, /* _frombuffer(bytes, dtype, shape, order) */
	CKPT_CALL_NUMPY_DTYPE,	/* dtype('f4', False, True) */
	/*
	 * a function by which a package makes its objects again, of a class of the package if it is given
	 * one: with other arguments than the package writes it is what any function is
	 */
	CKPT_CALL_OF_PACKAGE,
};

struct ckpt_scan_rule {
	const char *module, *name;
	uint8_t call;	    /* enum ckpt_scan_call */
	int8_t least, most; /* arguments; most -1: any number */
	uint8_t kind;	    /* enum ckpt_scan_kind */
	/* of an OBJECT: it is a function of which nobody knows that it may be called */
	bool call_runs_code;
	/* of DATA: */
	bool is_function;
	uint8_t then;	 /* enum ckpt_scan_then */
	/* bytes of memory that a call takes, and those that a gradient adds; 0: not many (amounts.c) */
	uint16_t cost, gradient;
	uint64_t result; /* CKPT_TYPE_*, one bit; of a constant what it is */
	uint64_t args[CKPT_SCAN_MOST_ARGS]; /* what each may be; 0: as the one in front */
};

/* Names of Python 2 and of older numpy are taken for what they became. Static, never NULL. */
const struct ckpt_scan_rule *ckpt_scan_rule(const char *module, const char *name);

/*
 * A module of Python 2 with another name today: the unpickler puts that in its place, in protocols
 * up to 2.
 */
bool ckpt_scan_is_of_python2(const char *module);

/* Is it a name that Python could import? If not, *WHY says what is wrong. */
bool ckpt_scan_is_name(const char *module, const char *name, const char **why);

/* A class or function of a module that runs code, reaches files, networks or other processes. */
bool ckpt_scan_runs_code(const char *module, const char *name);

/* Is the module part of Python itself? */
bool ckpt_scan_is_stdlib(const char *module);

/* ... or numpy's, which is there wherever torch is? */
bool ckpt_scan_is_of_library(const char *module);

/* Is it a module of torch with enumerations and the like, which are written as calls with a number or a text? */
bool ckpt_scan_has_enumerations(const char *module);

#endif
