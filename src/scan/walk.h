/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the scan know of one pickle while its opcodes are carried out, and what they
 * ask each other.
 *
 * What must stay true: each question is asked before the opcode that it is about, or behind the last
 * one, as its comment says; what Python and torch do at that opcode is what the answer is about.
 */
#ifndef CKPT_SCAN_WALK_H
#define CKPT_SCAN_WALK_H

#include "pickle/machine.h"
#include "scan/scanner.h"

/* What a finding is about. */
struct ckpt_scan_subject {
	uint32_t finding;
	const struct ckpt_value *value;
};

/*
 * One pickle on its way through the decoder. What is asked here is asked before the opcode is
 * carried out.
 */
struct ckpt_scan_walk {
	struct ckpt_scanner *s;
	struct ckpt_machine m;
	struct ckpt_pickle doc;
	const struct ckpt_scan_pickle *in;
	size_t depth, marks;		    /* of the stack, before the opcode */
	size_t frame_end;		    /* of the last FRAME; 0: there was none */
	uint64_t budget;		    /* bytes of memory */
	uint64_t copied;		    /* items and bytes that calls were given */
	const struct ckpt_value **texts;    /* malloc: of which exceptions make texts */
	uint32_t text_count, text_cap;
	uint64_t shown;			    /* items and bytes of which exceptions make texts */
	const struct ckpt_value *nested;    /* that was looked into last */
	struct ckpt_scan_package_call *package_calls; /* malloc: whose arguments are looked at behind the last opcode */
	uint32_t package_call_count, package_call_cap;
	const struct ckpt_value **inner;    /* malloc: objects that are in others */
	uint32_t inner_count, inner_cap;
	const struct ckpt_value **grown;    /* malloc: that got keys more than once */
	uint32_t grown_count, grown_cap;
	const struct ckpt_value **given_back; /* malloc: tensors that a call gives back, and what these were in (types.c) */
	uint32_t given_back_count, given_back_cap;
	const struct ckpt_value **kept_attributes; /* malloc: dicts that tensors keep for their attributes */
	uint32_t kept_attributes_count, kept_attributes_cap;
	bool has_texts_as_keys, has_python2_keys; /* of storages and views */
	struct ckpt_strmap said; /* of storages and views by their keys: what was said first (storages.c) */
	/*
	 * of storages in bytes of the pickle, by the address of these: of struct ckpt_scan_storage,
	 * in the arena
	 */
	struct ckpt_strmap sizes;
	bool imports;  /* as in struct ckpt_scan_pickle */
	bool broke;			    /* an opcode was refused, which was said */
	bool tired;			    /* no more is looked at than may be, which was said */
	bool has_two_classes; /* a storage was said to be of two: torch takes the first */
	bool has_quantized;   /* a storage was said to be of a quantized class */
	bool has_sparse;      /* a sparse tensor was made, which torch keeps in a list until a load ends */
	struct ckpt_scan_subject *subjects; /* malloc */
	uint32_t subject_count, subject_cap;
};

/* Flags of values beside enum ckpt_value_flags. */
enum ckpt_scan_value_flags {
	/* bytes: a file of torch, of which a load gives a storage */
	CKPT_SCAN_HOLDS_STORAGE = 1 << 5,
	/* a dtype, tensor, container or exception that something is made with, or a dtype that is a key: it is not to change any more */
	CKPT_SCAN_USED = 1 << 6,
	/* a container that a call has copied */
	CKPT_SCAN_COPIED = 1 << 7,
};
static inline void ckpt_scan_mark(const struct ckpt_value *v, enum ckpt_scan_value_flags flag)
{
	/* of the arena, as every value that is not a singleton */
	((struct ckpt_value *)v)->flags |= flag;
}

/* Offset of the opcode, for findings. */
static inline uint64_t ckpt_scan_at(const struct ckpt_scan_walk *w)
{
	return w->in->base + w->m.op.pos;
}

/* Is V a string of either Python? V may be NULL. */
static inline bool ckpt_scan_is_text(const struct ckpt_value *v)
{
	return v && (v->kind == CKPT_STR || v->kind == CKPT_PY2_STR);
}

/* A value in the place of one that cannot be known. */
const struct ckpt_value *ckpt_scan_unknown(struct ckpt_scan_walk *w);
bool ckpt_scan_is_unknown(const struct ckpt_value *v);

/* ---- the language of the table (types.c) ---- */

/* One bit of CKPT_TYPE_*, as V is now. */
uint64_t ckpt_scan_type(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/* The rule of a name; NULL: FUNC is none. */
const struct ckpt_scan_rule *ckpt_scan_rule_of(const struct ckpt_value *func);

/* Is V one of what WANTED says? */
bool ckpt_scan_fits(struct ckpt_scan_walk *w, const struct ckpt_value *v, uint64_t wanted);

/* "cuda:1", or torch.device of it: one on which torch makes tensors (devices.c) */
bool ckpt_scan_is_on_device(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/* Does torch.device(*ARGS) have the index that it is given? */
bool ckpt_scan_keeps_device(const struct ckpt_value *args);

/* Does torch have numbers that are quantized so? ARGS: of _rebuild_qtensor(). */
bool ckpt_scan_is_quantized_so(struct ckpt_scan_walk *w, const struct ckpt_value *args);

/* Does the opcode take what others left, and so cannot be the first (pickle.c)? */
bool ckpt_scan_takes_values(uint8_t code);

/*
 * Is it a tensor that begins where its storage does, and has no metadata? torch 2.14 takes states of generators, and nested tensors,
 * from elsewhere if not; and it reads the bytes of a state as they lie there, negated or not.
 */
bool ckpt_scan_begins_storage(const struct ckpt_value *v);

/*
 * A call that copies the numbers of tensors, or looks at them: are they what torch takes as it is?
 * NULL, or why not. The types of ARGS were looked at.
 */
const char *ckpt_scan_misread(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule, const struct ckpt_value *args);

/*
 * Does a tensor lie in its storage? CALL: what made it, one of CKPT_CALL_TENSOR*; the types of ARGS
 * were looked at.
 */
bool ckpt_scan_is_in_storage(struct ckpt_scan_walk *w, const struct ckpt_seq *args, enum ckpt_scan_call call);
/* Has the storage V a quantized class, of those that the pickle says it has? */
bool ckpt_scan_may_be_quantized(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/* Bytes of a storage as its persistent id says, and of one item; false: it is none. */
bool ckpt_scan_read_storage(const struct ckpt_value *v, struct ckpt_scan_storage *out);
bool ckpt_scan_read_storage_id(const struct ckpt_value *pid, struct ckpt_scan_storage *out);

/* What argument I of a row may be. */
uint64_t ckpt_scan_wanted(const struct ckpt_scan_rule *rule, uint32_t i);

/* COUNT values are put into a container, or are the last: a function of the table is none. */
void ckpt_scan_kept(struct ckpt_scan_walk *w, const struct ckpt_value *const *items, size_t count);

/* As many has what takes a function: into a longer tuple none is let. */
enum { CKPT_SCAN_FEW_ARGS = 4 };

/* The function or module that V is, or that is one of the arguments of a call, if V may be such; or NULL. */
const struct ckpt_value *ckpt_scan_function_of(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/* _rebuild_from_type() or _rebuild_from_type_v2(): it calls what it is given. */
bool ckpt_scan_is_from_type(const struct ckpt_value *func);

/* May the arguments of FUNC have a function? */
bool ckpt_scan_takes_function(const struct ckpt_value *func);

/* ---- what Python hashes (keys.c) ---- */

/* Where keys are among values: each is one, every other one is, or the first of each pair. */
enum ckpt_scan_keys { CKPT_KEYS_ALL, CKPT_KEYS_OF_PAIRS, CKPT_KEYS_IN_TUPLES };

/* Keys that a container gets, and those that it has; both counted without the values of pairs. */
struct ckpt_scan_added_keys {
	enum ckpt_scan_keys form;
	const struct ckpt_value *const *old, *const *items;
	size_t old_count, count;
	const struct ckpt_value *container; /* NULL: it is made of them */
};

/* Is hashing them more work than there are of them? Says so. */
void ckpt_scan_keys_added(struct ckpt_scan_walk *w, const struct ckpt_scan_added_keys *added);

/* Key I of those that are added. */
const struct ckpt_value *ckpt_scan_added_key(const struct ckpt_scan_added_keys *added, size_t i);

/* What a load makes of texts of Python 2: torch.load and pickle.load without an encoding, and with encoding='latin1' and 'bytes'. */
enum ckpt_scan_encoding { CKPT_SCAN_UTF8, CKPT_SCAN_LATIN1, CKPT_SCAN_BYTES, CKPT_SCAN_ENCODINGS };

/* What else there is to say of the keys of a dict, all that were asked of. */
struct ckpt_scan_identity_notes {
	bool is_vague;	       /* one has many spellings, of which not all are known */
	bool has_py2_text;     /* one is a text of Python 2, or has one in it */
	bool has_unit;	       /* one is a date or span of numpy */
	bool has_mixed_units; /* ... and others are of another unit, or of none */
	bool has_two_zones;    /* dates or times are of two time zones: the same moment in each is one key */
	bool any;
	unsigned numbers; /* enum ckpt_key_numbers */
	uint64_t unit; /* of the last one; 0: it has none */
	uint64_t zone; /* of the last one that has one */
};

/*
 * A number that keys have in common which Python takes for the same, and no others, but for one of
 * 2^60. NOTES are set, never cleared.
 */
uint64_t ckpt_scan_identity(struct ckpt_scan_walk *w, const struct ckpt_value *v, enum ckpt_scan_encoding encoding, struct ckpt_scan_identity_notes *notes);

/* ---- keys that are the same (same_keys.c) ---- */

/* Are there two among these? Says so; of a container that has some already behind the last opcode. */
void ckpt_scan_keys_compared(struct ckpt_scan_walk *w, const struct ckpt_scan_added_keys *added);

/* Behind the last opcode. */
void ckpt_scan_check_keys(struct ckpt_scan_walk *w);

/* Is a tensor that a call gives back as it is, where it need not be copied, in another place, too (types.c)? Behind the last opcode. */
void ckpt_scan_check_given_back(struct ckpt_scan_walk *w);

/* ---- how deep objects lie in objects (depth.c) ---- */

/*
 * COUNT values become part of an object by APPENDS and the like; an object is made of ARGS, and of
 * what is in these.
 */
void ckpt_scan_put_into(struct ckpt_scan_walk *w, const struct ckpt_value *const *items, size_t count);
void ckpt_scan_made_of(struct ckpt_scan_walk *w, const struct ckpt_value *args);

/* Behind the last opcode: are they too deep to be freed? Says so. */
void ckpt_scan_check_depth(struct ckpt_scan_walk *w);

/* ---- how much is made (amounts.c) ---- */

/*
 * Behind the read of an opcode, whatever came of that. What takes time or memory before the unpickler looks whether it is any
 * good: Python before 3.11 needs time with the square of the digits of a number in text, and the unpickler in Python makes
 * room for a BYTEARRAY8 before it reads it.
 */
void ckpt_scan_check_cost(struct ckpt_scan_walk *w);

/*
 * Before an opcode is looked at. The memo gives the same long name, text or object to any number of calls and dicts, each of
 * which it is gone through for. True: that is too much by now for the scan itself.
 */
bool ckpt_scan_takes_too_much(struct ckpt_scan_walk *w);

/*
 * VALUES, a tuple of them or one, are given to a call, or set as a state: is it too much by now?
 * Says so.
 */
void ckpt_scan_copied(struct ckpt_scan_walk *w, const struct ckpt_value *values);

/*
 * A call, of CKPT_CALL_TENSOR_WHOLE, CKPT_CALL_OF_TENSORS or CKPT_CALL_OF_PLACES, makes a tensor as large as its
 * arguments.
 */
void ckpt_scan_made(struct ckpt_scan_walk *w, uint8_t call, const struct ckpt_value *args);

/*
 * A storage without numbers is named, empty or on meta: torch makes one each time, and of one on meta 2.6 and 2.14 read the NBYTES of
 * its record each time.
 */
void ckpt_scan_storage_named(struct ckpt_scan_walk *w, uint64_t nbytes);

/* A call of RULE with ARGS makes an object, which may be large by itself; and STATE is set on one that it made. */
void ckpt_scan_weighed(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule,
		       const struct ckpt_value *args);
void ckpt_scan_state_weighed(struct ckpt_scan_walk *w, const struct ckpt_scan_rule *rule,
			     const struct ckpt_value *state);

/* ---- what Python shows of an exception that nobody catches (shown.c) ---- */

/* Does a call of RULE make an exception of Python's own? */
bool ckpt_scan_is_exception(const struct ckpt_scan_rule *rule);

/* V is the arguments of an exception, or its state: Python makes a text of it, of a part that is there twice two. */
void ckpt_scan_will_be_shown(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/* Behind the last opcode: is that too much, or too deep? Says so. */
void ckpt_scan_check_shown(struct ckpt_scan_walk *w);

/* EXCEPTIONS are put into a group. False: one is in a group or an exception already, or there twice. */
bool ckpt_scan_are_in_one_group(struct ckpt_scan_walk *w, const struct ckpt_value *exceptions);

/* ---- what is named and called (calls.c) ---- */

/* A global is imported. */
void ckpt_scan_named(struct ckpt_scan_walk *w, const struct ckpt_global *g);

/*
 * FUNC is called with ARGS, or an instance made of it: KIND is enum ckpt_call_kind. KWARGS may be
 * NULL.
 */
void ckpt_scan_called(struct ckpt_scan_walk *w, uint8_t kind, const struct ckpt_value *func,
		      const struct ckpt_value *args, const struct ckpt_value *kwargs);

/* Argument I of a call; NULL: there is none. */
static inline const struct ckpt_value *ckpt_scan_arg(const struct ckpt_value *args, uint32_t i)
{
	return args->kind == CKPT_TUPLE && i < args->u.seq.count ? args->u.seq.items[i] : NULL;
}

/* Is V what getattr() gives? */
bool ckpt_scan_is_getattr(const struct ckpt_value *v);

/* ---- calls of what packages have (packages.c) ---- */

/* A call as a load would make it, also one that another call makes. */
struct ckpt_scan_checked_call {
	struct ckpt_scan_walk *w;
	uint8_t kind; /* enum ckpt_call_kind */
	const struct ckpt_global *func;
	const struct ckpt_scan_rule *rule;
	const struct ckpt_value *args, *kwargs; /* kwargs may be NULL */
	unsigned nesting;
};

/* Of a function of CKPT_CALL_OF_PACKAGE, whose arguments fit its row: has a package's own pickler written it? */
bool ckpt_scan_is_as_package_writes(struct ckpt_scan_checked_call *c);

/* A call that has a rule of its own, and makes an object: it gets no function, either. */
void ckpt_scan_is_given(struct ckpt_scan_checked_call *c);

/* OBJECT gets STATE by BUILD: if that is an object itself, what it has counts for attributes. */
void ckpt_scan_has_state(struct ckpt_scan_walk *w, const struct ckpt_value *object, const struct ckpt_value *state);

/* A date or time is made, with a time zone perhaps: Python calls methods of that. */
void ckpt_scan_has_zone(struct ckpt_scan_checked_call *c);

/*
 * A class or function of which nothing but the name is known is called, or made an instance of. Is it,
 * by its name, a function that is called for what it does? What it is given is looked at behind the
 * last opcode.
 */
bool ckpt_scan_is_package_function(struct ckpt_scan_checked_call *c);

/*
 * What Python's library, or numpy, does with the state, or an item (NULL), of an object of its own is always there, and no package's: an
 * email.message.Message asks the object that is its policy. So it holds data, and others of these.
 */
void ckpt_scan_library_gets(struct ckpt_scan_walk *w, const struct ckpt_value *object, const struct ckpt_value *state);

/* OBJECT becomes an attribute under a name that a load may look up and call: it must hold no function, which is looked at behind the last opcode. */
void ckpt_scan_is_method(struct ckpt_scan_walk *w, const struct ckpt_value *object);

/* Is V, by its name, a function that nobody knows, or what keeps one to be called? */
bool ckpt_scan_may_be_function(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/* numpy.float32, which makes a number of what it is given, and is a value in many states. */
bool ckpt_scan_is_number_class(const struct ckpt_global *g);

/*
 * A metaclass makes a class of a name, bases and a dict of attributes, in whatever order, which then are the methods that the next
 * opcode calls. Could the class that C makes an instance of do so? A record of data is none. (new.c, as the next two)
 */
bool ckpt_scan_makes_class(struct ckpt_scan_checked_call *c);

/* "dtype": what a program can have as the name of an argument. */
bool ckpt_scan_is_keyword(const struct ckpt_value *name);

/* Sizes, of which torch.Tensor.__new__() makes a tensor; torch writes its objects without keywords. */
bool ckpt_scan_may_be_sizes(struct ckpt_scan_checked_call *c);

/* UserDict, UserString: those of Python's library that are made to be derived from. */
bool ckpt_scan_is_user_container(const struct ckpt_global *g);

/* "Tensor", "ndarray": of torch, numpy or Python, which packages import, or a class of theirs of that name, with such ARGS. */
bool ckpt_scan_is_named_as_array(const struct ckpt_global *g, const struct ckpt_value *args);

/* Is V, by its name, no class, or something that is looked up on an object? */
bool ckpt_scan_is_no_class(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/* Is V a member of an enumeration, as Python writes those that are joined by or_()? */
bool ckpt_scan_is_flag(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/* Behind the last opcode: was any of those calls given what it may do harm with? Says so. */
void ckpt_scan_check_packages(struct ckpt_scan_walk *w);

/*
 * OBJECT gets a state, or an item, now: append() and __setstate__() may be what it was made with, or has
 * by its keys. It is looked at behind the last opcode. Of what a class has nothing may be changed.
 */
void ckpt_scan_fills_object(struct ckpt_scan_walk *w, const struct ckpt_value *object);

/* OBJECT, of a call, gets so many KEYS: those that it has may be what its class calls for the next one. */
void ckpt_scan_sets_keys(struct ckpt_scan_walk *w, const struct ckpt_value *object, size_t keys);

/*
 * OBJECT, of a class of which nothing is known, keeps VALUES in its state or among its items: are
 * there functions among them, which it may call? Says which.
 */
void ckpt_scan_keeps_functions(struct ckpt_scan_walk *w, const struct ckpt_value *object, const struct ckpt_value *const *values, size_t count);

/* OBJECT gets STATE by BUILD; COUNT items, or pairs, are added to it. */
void ckpt_scan_built(struct ckpt_scan_walk *w, const struct ckpt_value *object,
		     const struct ckpt_value *state);
void ckpt_scan_added(struct ckpt_scan_walk *w, const struct ckpt_value *object, bool pairs, size_t count);

/*
 * V is copied by a call or BUILD: what is put into it behind that is not in the copy. INSIDE: so is
 * what is in it, if it is a tuple or list.
 */
void ckpt_scan_freeze(const struct ckpt_value *v, bool inside);

/* Has the deque that ARGS make room for so many items? */
bool ckpt_scan_has_room(const struct ckpt_value *args, uint64_t count);
void ckpt_scan_persistent(struct ckpt_scan_walk *w, const struct ckpt_value *pid);

/* What torch gives back for PID, where that is a value of the pickle: a class that has its source beside it. CTX: the walk. */
int ckpt_scan_load_persistent(void *ctx, const struct ckpt_value *pid, const struct ckpt_value **out, struct ckpt_error *err);

/*
 * COUNT values are to be looked at, which may have been before: what many calls have in common
 * could take for ever. False: enough, which was said.
 */
bool ckpt_scan_may_look(struct ckpt_scan_walk *w, uint64_t count);

/* STATE is set as attributes: are there names that the unpickler itself would call? */
void ckpt_scan_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state);

/* Bytes that are a file of torch themselves. */
void ckpt_scan_nested_bytes(struct ckpt_scan_walk *w, const struct ckpt_value *bytes);

/* Is STATE what torch takes for the attributes of a tensor: a dict, or a pair of dicts? */
bool ckpt_scan_are_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state);

/* Of a tensor of torch's own classes: none that a load calls when all is read. */
void ckpt_scan_called_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state);

/* The same of a tensor, on which each is set by its name: it has parts of its own under some. */
void ckpt_scan_tensor_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state);

/*
 * _rebuild_from_type() keeps the dict STATE itself: what is put into it behind the call is an attribute, too. So it is
 * looked at again behind the last opcode.
 */
void ckpt_scan_keep_attributes(struct ckpt_scan_walk *w, const struct ckpt_value *state);
void ckpt_scan_check_kept_attributes(struct ckpt_scan_walk *w);

/* The state of a functools.partial: (function, arguments, keywords, attributes). */
void ckpt_scan_partial_state(struct ckpt_scan_walk *w, const struct ckpt_value *state);

/*
 * The class or function that V is, also as an attribute of another; NULL: it cannot be known. In
 * the arena of the pickle.
 */
const struct ckpt_global *ckpt_scan_callee(struct ckpt_scan_walk *w, const struct ckpt_value *v);

/*
 * Numbers that are taken for places in memory come out of storages: who has read these looks at
 * them (indices.c).
 */
static inline void ckpt_scan_has_places(struct ckpt_scan_walk *w)
{
	*(w->s->weights ? &w->s->has_places : &w->s->has_places_inside) = true;
}

/* Is it understood to its last byte? (numpy.c) WHY: what is not. */
bool ckpt_scan_check_dtype_state(const struct ckpt_value *dtype, const struct ckpt_value *state);
bool ckpt_scan_check_array_state(const struct ckpt_value *state);
/* of an array, or one number: no objects, and no arrays as items */
bool ckpt_scan_is_item_dtype(const struct ckpt_value *v);

/* Is DATA as many bytes as an item of DTYPE has? Of more numpy takes the first; texts of Python 2 are fewer by some encodings. */
bool ckpt_scan_is_raw_item(const struct ckpt_value *dtype, const struct ckpt_value *data);

/*
 * False: a text of Python 2 that is another one by the encoding that a loader is told: where a byte of it is none of ASCII, it has as
 * many characters, and is the same as another text, for some.
 */
bool ckpt_scan_is_of_one_encoding(const struct ckpt_value *v);
/* an array of bool, int, float or complex, of which torch can make a tensor */
bool ckpt_scan_is_numbers_array(const struct ckpt_value *v);

/* Has it the numbers that torch writes as an array for a tensor of DTYPE, one of torch? Of others they are converted, by each torch in its way. */
bool ckpt_scan_is_array_of(const struct ckpt_value *array, const struct ckpt_value *dtype);
/* such an array, or one of dates, or one number or date of numpy */
bool ckpt_scan_holds_numbers(const struct ckpt_value *v);

/*
 * The shape of an array of numpy: a literal tuple of up to 32 numbers, as more than that is too
 * much for numpy until 1.26; of one without items the product of the others is bounded.
 */
bool ckpt_scan_is_short_shape(const struct ckpt_value *shape);
bool ckpt_scan_is_dtype_text(const struct ckpt_value *v);

/* Items of a dtype, one behind the other. */
struct ckpt_scan_numpy_data {
	const uint8_t *bytes;
	size_t len;
};
/*
 * Is there text in an item, in fields and arrays, too? And is it made of characters, in all of
 * them?
 */
bool ckpt_scan_numpy_has_text(struct ckpt_scan_walk *w, const struct ckpt_value *dtype);
bool ckpt_scan_numpy_are_texts(struct ckpt_scan_walk *w, const struct ckpt_value *dtype, const struct ckpt_scan_numpy_data *data);

/* ---- contents that nobody else asks about (contents.c) ---- */

/* Are DATA, bytes of items of DTYPE, characters wherever that has text? */
bool ckpt_scan_are_texts(struct ckpt_scan_walk *w, const struct ckpt_value *dtype, const struct ckpt_value *data);

/* Do the numbers of ARGS, of a call of CKPT_CALL_RANGE, lie in what is in front of them? */
bool ckpt_scan_is_range(const struct ckpt_value *args);

/* Is POSITION in BYTES, or behind the last of them? */
bool ckpt_scan_is_position(const struct ckpt_value *bytes, const struct ckpt_value *position);

/*
 * Is FIRST, the first argument of a call of CKPT_CALL_DATE, TIME or DATETIME, a number, or bytes of
 * a date that there is?
 */
bool ckpt_scan_is_date(struct ckpt_scan_walk *w, enum ckpt_scan_call call, const struct ckpt_value *first);

/* "('id', 3, os.system, ...)", escaped (show.c) */
const char *ckpt_scan_show_args(const struct ckpt_value *args, char *buf, size_t size);

/* ---- where it is in the checkpoint (paths.c) ---- */

/*
 * Behind an opcode: findings since number FIRST are about the value that it left on top of the
 * stack.
 */
void ckpt_scan_note_subjects(struct ckpt_scan_walk *w, uint32_t first);

/* Behind the last: give those findings their paths. */
void ckpt_scan_name_subjects(struct ckpt_scan_walk *w);

/* ---- torch.load(weights_only=True) (weights.c) ---- */

/* Before each opcode. */
void ckpt_scan_weights(struct ckpt_scan_walk *w);

/* There is no opcode, WHY says why: its unpickler goes no further, either. */
void ckpt_scan_weights_broken(struct ckpt_scan_walk *w, const char *why);

#endif
