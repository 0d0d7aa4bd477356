/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that a checkpoint holds, object by object and in full: numbers, texts, bytes, containers, and
 * what a pickle says of everything else. For programs that make objects of their own of it, as the
 * Python module does; ckpt_walk() gives the same for people to read.
 *
 * What must stay true: a node says what the object is once torch.load has made it, however its
 * pickle spells it: protocol 2 has no word for bytes, sets and complex numbers and writes calls.
 * One node is one Python object, so what two places share is one node, and cycles are possible.
 * Nothing is executed.
 */
#ifndef CKPT_NODE_H
#define CKPT_NODE_H

#include <ckpt/model.h>
#include <ckpt/read.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One object of a model. It lives as long as the model and is compared by its address. */
struct ckpt_node;

enum ckpt_node_kind {
	CKPT_NODE_NONE,
	CKPT_NODE_BOOL,	   /* INTEGER: 0 or 1 */
	CKPT_NODE_INT,	   /* INTEGER */
	CKPT_NODE_LONG,	   /* an int of more than 64 bits. BYTES: two's complement, lowest first */
	CKPT_NODE_FLOAT,   /* REAL */
	CKPT_NODE_COMPLEX, /* REAL and IMAG */
	/* BYTES: UTF-8; half of a pair of surrogates, which a str may have, is ED A0..BF 80..BF */
	CKPT_NODE_STR,
	CKPT_NODE_PY2_STR,   /* a str of Python 2. BYTES, in an encoding that nobody noted */
	CKPT_NODE_BYTES,     /* NBYTES of them, for ckpt_node_bytes() */
	CKPT_NODE_BYTEARRAY, /* the same */
	CKPT_NODE_LIST,	     /* ITEM_COUNT items, also for the next three */
	/* CLASS_NAME "Size": a torch.Size; else a plain one */
	CKPT_NODE_TUPLE,
	CKPT_NODE_SET,
	CKPT_NODE_FROZENSET,
	/*
	 * PAIR_COUNT keys and values, in their order. The class is dict, or collections.OrderedDict,
	 * defaultdict (whose factory is the first argument) or Counter. CKPT_PART_STATE: attributes
	 * of an OrderedDict, such as `_metadata`.
	 */
	CKPT_NODE_DICT,
	CKPT_NODE_TENSOR,  /* ckpt_node_tensor(), ckpt_node_array(); CKPT_PART_STATE: attributes */
	CKPT_NODE_NDARRAY, /* of numpy; ckpt_node_array() */
	CKPT_NODE_SCALAR,  /* of numpy, such as numpy.float64; ckpt_node_array() */
	/*
	 * On its own, or of a call. INTEGER: its number, for ckpt_storage_get(); its class. BYTES: its
	 * dtype, "float32", which an empty one may have several of.
	 */
	CKPT_NODE_STORAGE,
	CKPT_NODE_GLOBAL,  /* a class, a function, a constant such as torch.float32 */
	/*
	 * Whatever else was made by a call: CKPT_PART_CALLABLE with the tuple CKPT_PART_ARGS. Its
	 * class is what was called, if that is a global. Then it got the ITEM_COUNT items, as by
	 * append(), the PAIR_COUNT pairs, as by o[key] = value, and CKPT_PART_STATE.
	 */
	CKPT_NODE_OBJECT,
	CKPT_NODE_EXTENSION, /* INTEGER: its code in the registry of copyreg */
	CKPT_NODE_MISSING,   /* it could not be read. BYTES: why, as UTF-8 */
	CKPT_NODE_OTHER,     /* named by a persistent id that torch does not know: CKPT_PART_ARGS */
};

/* One node. Pointers are borrowed from the model. What a kind does not have is 0 or NULL. */
struct ckpt_node_info {
	size_t size;
	enum ckpt_node_kind kind;
	/* an OBJECT that class.__new__() made, with CKPT_PART_KWARGS if it has some */
	bool is_new;
	uint8_t reserved[3];
	int64_t integer;
	double real, imag;
	const char *bytes; /* NBYTES of them; NULL of BYTES and BYTEARRAY */
	uint64_t nbytes;
	uint64_t item_count, pair_count;
	/* "collections" and "OrderedDict"; of a GLOBAL its own; NULL where no global was called */
	const char *module, *class_name;
};
#define CKPT_NODE_INFO_INIT \
	{ \
		.size = sizeof(struct ckpt_node_info) \
	}

/* The node called NAME, as ckpt_find() finds it: "" is the root. Returns what ckpt_find() returns. */
CKPT_API int ckpt_node_find(const struct ckpt_model *model, const char *name,
			    const struct ckpt_node **out, struct ckpt_error *err);

/* Describe NODE. Returns 0; CKPT_E_ARG; CKPT_E_NOMEM. */
CKPT_API int ckpt_node_get(const struct ckpt_model *model, const struct ckpt_node *node,
			   struct ckpt_node_info *out, struct ckpt_error *err);

/* Copy the NBYTES bytes of NODE to BUF. Returns 0; CKPT_E_ARG: it has none; CKPT_E_NOMEM. */
CKPT_API int ckpt_node_bytes(const struct ckpt_model *model, const struct ckpt_node *node,
			     void *buf, struct ckpt_error *err);

/* Item I, 0 <= I < ITEM_COUNT; NULL: there is none. */
CKPT_API const struct ckpt_node *ckpt_node_item(const struct ckpt_model *model,
						const struct ckpt_node *node, uint64_t i);

/* Key and value of pair I, 0 <= I < PAIR_COUNT; NULL: there is none. */
CKPT_API const struct ckpt_node *ckpt_node_key(const struct ckpt_model *model,
					       const struct ckpt_node *node, uint64_t i);
CKPT_API const struct ckpt_node *ckpt_node_value(const struct ckpt_model *model,
						 const struct ckpt_node *node, uint64_t i);

enum ckpt_node_part {
	CKPT_PART_CALLABLE,
	CKPT_PART_ARGS, /* always a tuple */
	CKPT_PART_KWARGS,
	CKPT_PART_STATE,
	CKPT_PART_SETTER, /* what is called with object and state, in place of __setstate__ */
};

/*
 * One of these parts, of any node that is made by a call, tensors and arrays too; NULL: it has no
 * such part.
 */
CKPT_API const struct ckpt_node *ckpt_node_part(const struct ckpt_model *model,
						const struct ckpt_node *node,
						enum ckpt_node_part part);

/*
 * Which tensor of the list a TENSOR is: *INDEX is for ckpt_tensor_get(), of the first of its names.
 * Returns 0; CKPT_E_ARG if it is no tensor; CKPT_E_NOTFOUND if it has no name: it is a key, or a
 * part of another tensor; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_node_tensor(const struct ckpt_model *model, const struct ckpt_node *node,
			      uint64_t *index, struct ckpt_error *err);

/* Axes of the tensors that ckpt_node_rebuild() knows. */
enum { CKPT_REBUILD_MOST_AXES = 16 };

/*
 * What torch.save writes for nearly every tensor: a call of torch._utils._rebuild_tensor_v2(STORAGE,
 * OFFSET, SHAPE, STRIDE, REQUIRES_GRAD, HOOKS), to which nothing was done afterwards. Numbers are
 * those of the file, in elements, and nothing says that they fit: the function has the last word.
 */
struct ckpt_node_rebuild {
	size_t size;
	const struct ckpt_node *storage; /* a STORAGE */
	const struct ckpt_node *hooks;	 /* an empty OrderedDict, which is nowhere else */
	int64_t offset;
	uint32_t ndim; /* axes of SHAPE, and of STRIDE */
	bool requires_grad;
	uint8_t reserved[3];
	int64_t shape[CKPT_REBUILD_MOST_AXES], stride[CKPT_REBUILD_MOST_AXES];
};
#define CKPT_NODE_REBUILD_INIT \
	{ \
		.size = sizeof(struct ckpt_node_rebuild) \
	}

/*
 * NODE, if it is made by such a call, for those who make a hundred thousand of them: all at once, in
 * place of twelve nodes. Axes from NDIM on are 0. Returns 0; CKPT_E_NOTFOUND: it is
 * made in another way, or has more axes, and its parts say how; CKPT_E_ARG; CKPT_E_NOMEM.
 */
CKPT_API int ckpt_node_rebuild(const struct ckpt_model *model, const struct ckpt_node *node,
			       struct ckpt_node_rebuild *out, struct ckpt_error *err);

/*
 * The values of a TENSOR, NDARRAY or SCALAR, as ckpt_array_find() opens them. NAME is what messages
 * call it.
 */
CKPT_API int ckpt_node_array(const struct ckpt_model *model, const struct ckpt_node *node,
			     const char *name, unsigned flags, struct ckpt_array **out,
			     struct ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
