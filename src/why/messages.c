/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages that are recognized, in one table: of torch 0.4 to 2.14, pickle, transformers,
 * Lightning, safetensors, DeepSpeed, vLLM, bitsandbytes and torchao.
 *
 * Every message of the table that occurs in the error is explained, in the order of the table: put
 * particular ones first. A general one ("Weights only load failed") counts only where no other was
 * reported. Patterns must not match the words of a user's program, and must not backtrack without a
 * bound: use {1,300} rather than + where anything may match. IN, OUT and PATH as words of a mend
 * are replaced by paths (fill_in_paths()).
 */
#include "base/ascii.h"
#include "why/match.h"
#include "why/why.h"

#include <string.h>

/*
 * For each message: the checks that look for its cause in the file, in this order, and what is
 * reported if none finds one, or there is no file.
 */
struct message {
	const char *pattern;
	ckpt_why_check *checks[4];
	const char *id, *text; /* NULL: only the file tells */
	const char *mend[3];
	bool general;
};

static const char trusted[] = ">>> torch.load(PATH, weights_only=False)";
static const char trust[] =
	"weights_only=False runs what the file says: only if you trust where it comes from";

/* Parts of quantized weights that a module has beside its own attributes. */
#define QUANT_ATTRIBUTES \
	"weight_scale(?:_inv|_2)?|weight_global_scale|weight_packed|weight_zero_point|weight_g_idx|qweight|qzeros|g_idx|" \
	"absmax|quant_map|input_scale|k_scale|v_scale"

static const struct message messages[] = {
	/* load_state_dict() */
	{ .pattern =
		  "(?:Missing|Unexpected) key\\(s\\) in state_dict:|missing_keys=\\[['\"]|unexpected_keys=\\[['\"]|"
		  "(?:missing keys|unexpected key) in source state_dict:|and are newly initialized: ?[\\[{]|"
		  "weights were not initialized from checkpoint: ?[\\[{]|"
		  "were not used when initializing \\S+: ?[\\[{]",
	  .checks = { ckpt_why_explain_keys } },
	{ .pattern =
		  "size mismatch for \\S+: copying a param|: found shape torch\\.Size|\\| MISMATCH +\\||"
		  "Size mismatch between saved torch\\.Size",
	  .checks = { ckpt_why_explain_shapes } },
	{ .pattern = "Cannot copy out of meta tensor; no data",
	  .checks = { ckpt_why_check_meta },
	  .id = "meta_tensors",
	  .text = "a tensor without data (device 'meta') is copied: the model, or what was loaded, was never given its "
		  "weights",
	  .mend = { "model.to_empty(device='cpu') before load_state_dict(), or load_state_dict(..., assign=True)" } },
	{ .pattern =
		  "expected torch\\.Tensor or Tensor-like object from checkpoint but received <class '([^']*)'>",
	  .id = "not_a_tensor",
	  .text = "an entry of the state dict is no tensor, but an array of numpy or another object",
	  .mend = { "$ ckpt sanitize IN OUT" } },
	{ .pattern = "whose dimensions in the model are .{1,200} an exception occurred",
	  .id = "other_kind",
	  .text = "a weight has the right shape, and is of another kind than the model's: sparse, quantized, or without "
		  "data",
	  .checks = { ckpt_why_check_meta },
	  .mend = { "'ckpt ls --long IN' shows of which kind each tensor is; make the model in the same form" } },
	{ .pattern = "Expected state_dict to be dict-like, got <class '([^']*)'>",
	  .checks = { ckpt_why_explain_dict_like } },
	{ .pattern =
		  "loaded state dict contains a parameter group that doesn't match the size of optimizer's group|"
		  "loaded state dict has a different number of parameter groups",
	  .checks = { ckpt_why_explain_optimizer } },
	/* DCP */
	{ .pattern = "Missing key in checkpoint state_dict: (.{1,500}?)\\.(?:\\s|$)",
	  .checks = { ckpt_why_explain_dcp_key },
	  .id = "missing_keys",
	  .text = "the program asks for a name that the checkpoint has not",
	  .mend = { "'ckpt ls IN' lists the names" } },
	{ .pattern =
		  "metadata is None; global metadata read failed: \\[Errno \\d+\\] [^:]*: '([^']*)'",
	  .checks = { ckpt_why_explain_path } },
	{ .pattern =
		  "metadata is None; global metadata read failed|Can't get attribute '[^']*' on <module "
		  "'torch\\.distributed\\.checkpoint|module 'torch\\.distributed\\.checkpoint\\S*' has no attribute|"
		  "No module named '(?:pathlib\\._local|torch\\.distributed\\.checkpoint[^']*)'",
	  .checks = { ckpt_why_check_file },
	  .id = "dcp_index_version",
	  .text = "the index (.metadata) is a pickle of classes that this torch or Python has not: another version wrote "
		  "it",
	  .mend = { "$ ckpt reindex IN OUT" } },
	{ .pattern = "Checkpoint already exists and self\\.overwrite",
	  .id = "exists",
	  .text = "a checkpoint is in the directory already, and the program is not to overwrite it",
	  .mend = { "save to a new directory, or FileSystemWriter(..., overwrite=True)" } },
	/* devices */
	{ .pattern =
		  "(?|deserialize object on an? (\\w+) device but torch\\.\\w+\\.is_available\\(\\) is False|"
		  "The (\\w+) device module is not registered|Storage device not recognized: (\\w+)|"
		  "device type at start of device string: (\\w+))",
	  .checks = { ckpt_why_check_meta, ckpt_why_explain_device },
	  .id = "device",
	  .text = "the tensors were saved on a device that this machine, or this torch, has not",
	  .mend = { ">>> torch.load(PATH, map_location='cpu')", "$ ckpt remap --all cpu IN OUT" } },
	{ .pattern =
		  "deserialize object on (\\w+) device (?:\\d+) but torch\\.(\\w+)\\.device_count\\(\\) is (\\d+)",
	  .checks = { ckpt_why_explain_device_count },
	  .id = "device",
	  .text = "the tensors were saved on a device with a number that this machine has not",
	  .mend = { ">>> torch.load(PATH, map_location='cpu')",
		    "$ ckpt remap 'cuda:*=cuda:0' IN OUT" } },
	{ .pattern = "don't know how to restore data location of \\S+ \\(tagged with ([^)]*)\\)",
	  .checks = { ckpt_why_explain_device },
	  .id = "device",
	  .text = "the tensors were saved on a device of a backend that is not loaded here (torch_xla, torch_npu ...)",
	  .mend = { ">>> torch.load(PATH, map_location='cpu')", "$ ckpt remap --all cpu IN OUT",
		    "or import the package of the backend before torch.load" } },
	{ .pattern = "CUDA out of memory|CUDA error: out of memory",
	  .checks = { ckpt_why_explain_device },
	  .id = "device",
	  .text = "torch.load puts tensors back on the GPU they came from, every process on the same one",
	  .mend = { ">>> torch.load(PATH, map_location='cpu')" } },
	/* archives */
	{ .pattern =
		  "failed finding central directory|failed reading zip archive: not a ZIP archive",
	  .checks = { ckpt_why_check_file },
	  .id = "truncated",
	  .text = "the file ends too early, or is no checkpoint at all (a web page, a pointer of Git LFS): a download, a copy "
		  "or a save broke off",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern =
		  "invalid header or archive is corrupted|unsupported (?:method|encryption|multidisk)",
	  .checks = { ckpt_why_check_repacked, ckpt_why_check_file },
	  .id = "damaged",
	  .text = "the zip archive is broken, several files are behind one another in it, or another tool packed it",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern = "file in archive is not in a subdirectory",
	  .checks = { ckpt_why_check_repacked, ckpt_why_check_file },
	  .id = "repacked",
	  .text = "it is a zip archive that torch.save did not write: its files are not in one folder",
	  .mend = { "take the file as it was downloaded: a .pt or .bin is not to be unpacked" } },
	{ .pattern =
		  "failed locating file ([^\\s:]+): file not found|inline_container\\.cc:\\d+\\] \\. file not found: "
		  "[^/\\s]*/(\\S+)",
	  .checks = { ckpt_why_explain_record } },
	{ .pattern = "Expected hasRecord\\(\"version\"\\)",
	  .checks = { ckpt_why_check_repacked, ckpt_why_check_file },
	  .id = "other_zip",
	  .text = "the zip archive has no record 'version': torch.save did not write it",
	  .mend = { "unpack it, if it holds checkpoints; else download it again" } },
	{ .pattern =
		  "Attempted to read a PyTorch file with version (\\d+), but the (maximum|minimum) supported version "
		  "for reading is (\\d+)",
	  .checks = { ckpt_why_explain_version },
	  .id = "damaged",
	  .text = "the archive's record 'version' is none that torch reads: it is damaged, or no archive of torch",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern = "is a zip archive \\(did you mean to use torch\\.jit\\.load\\(\\)\\?\\)",
	  .checks = { ckpt_why_check_program, ckpt_why_check_file },
	  .id = "torch_too_old",
	  .text = "torch before 1.6 does not read the zip form that torch.save writes since then",
	  .mend = { "$ ckpt convert --to torch-legacy IN OUT" } },
	{ .pattern =
		  "record size \\(\\d+ bytes\\) does not match expected size|nullptr storage|invalid python storage",
	  .checks = { ckpt_why_check_file },
	  .id = "damaged",
	  .text = "a record of the archive has not the size that its tensor needs",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern = "Unknown endianness type",
	  .checks = { ckpt_why_check_file },
	  .id = "damaged",
	  .text = "the record 'byteorder' is neither 'little' nor 'big'",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern = "unexpected EOF, expected (-?\\d+) more bytes",
	  .checks = { ckpt_why_check_file },
	  .id = "truncated",
	  .text = "the file ends too early: a download, a copy or a save broke off",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern = "storage has wrong (?:byte )?size: expected",
	  .checks = { ckpt_why_check_file },
	  .id = "damaged",
	  .text = "a storage has not the size that its tensor needs: the file is damaged, or torch is much older than what "
		  "wrote it",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern = "OSError: \\[Errno 22\\] Invalid argument",
	  .checks = { ckpt_why_check_file } },
	/* TorchScript */
	{ .pattern =
		  "``?weights_only=True``? with TorchScript|received a zip file that looks like a TorchScript archive",
	  .checks = { ckpt_why_check_program },
	  .id = "torchscript",
	  .text = "it is a TorchScript program (torch.jit.save), not a dict of weights",
	  .mend = { ">>> torch.jit.load(PATH)", "$ ckpt convert IN OUT" } },
	{ .pattern = "Unknown builtin op: (\\w+)::(\\w+)",
	  .id = "needs_operators",
	  .text = "the TorchScript program calls operators of another package (torchvision, torchaudio ...)",
	  .mend = { "import that package before torch.jit.load", "$ ckpt convert IN OUT" } },
	/* pickles */
	{ .pattern = "Ran out of input|^EOFError\\s*$",
	  .checks = { ckpt_why_check_file },
	  .id = "empty",
	  .text = "the file is empty, or ends too early: a save or a download broke off, or the program reads a file that it "
		  "has not closed yet",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern = "pickle data was truncated|pickle exhausted before end of frame",
	  .checks = { ckpt_why_check_file },
	  .id = "truncated",
	  .text = "the file ends too early: a download, a copy or a save broke off",
	  .mend = { ckpt_why_copy_again } },
	{ .pattern = "invalid load key, '(.{1,4}?)'",
	  .checks = { ckpt_why_check_file, ckpt_why_check_program },
	  .id = "not_a_checkpoint",
	  .text = "the file does not begin as a checkpoint does: 'v' is a pointer of Git LFS, '<' a web page, '{' JSON, '\\x1f' "
		  "gzip, 'H' or '\\x89' HDF5",
	  .mend = { "'head -c 200 IN' shows what it is", ckpt_why_copy_again } },
	{ .pattern =
		  "unpickling stack underflow|could not find MARK|STACK_GLOBAL requires str|unsupported pickle protocol: "
		  "\\d+|Memo value not found at index|persistent IDs in protocol 0 must be ASCII|"
		  "odd number of items for|unregistered extension code|invalid opcode|Invalid protocol version: ",
	  .checks = { ckpt_why_check_file },
	  .id = "not_a_checkpoint",
	  .text = "the file is no checkpoint, or is damaged: what was read as a pickle is none",
	  .mend = { "'head -c 200 IN' shows what it is", ckpt_why_copy_again } },
	{ .pattern = "filename 'storages' not found|files saved in the legacy \\.tar format",
	  .checks = { ckpt_why_check_file },
	  .id = "tar",
	  .text = "torch takes the file for a tar archive: it is one of other files, or nothing but zeros",
	  .mend = { "'tar -tf IN' lists what is in it: unpack it", ckpt_why_copy_again } },
	{ .pattern = "A load persistent id instruction was encountered",
	  .checks = { ckpt_why_check_file },
	  .id = "wrong_reader",
	  .text = "it is a file of torch.save, and was read with pickle.load, or by torch before 1.6",
	  .mend = { ">>> torch.load(PATH)",
		    "for torch before 1.6: ckpt convert --to torch-legacy IN OUT" } },
	{ .pattern = "Invalid magic number; corrupt file",
	  .checks = { ckpt_why_check_file },
	  .id = "bare_pickle",
	  .text = "it was written by pickle.dump, joblib or the like, not by torch.save",
	  .mend = { "'ckpt dis IN' shows what is in it",
		    "pickle.load reads it, only if you trust where it comes from" } },
	{ .pattern = "'(?:ascii|utf-8)' codec can't decode byte",
	  .checks = { ckpt_why_check_file, ckpt_why_check_bytes },
	  .id = "python2_text",
	  .text = "it was saved by Python 2, with text in it of which Python 3 does not know the encoding",
	  .mend = { ">>> torch.load(PATH, encoding='latin1')" } },
	/* weights_only */
	{ .pattern = "(?|Unsupported global: GLOBAL (\\S+)|Unsupported class (\\S+))",
	  .checks = { ckpt_why_explain_global } },
	{ .pattern = "Unsupported operand (\\d+)",
	  .checks = { ckpt_why_explain_operand },
	  .id = "weights_only",
	  .text = "weights_only=True does not read this pickle: it is of another protocol than 2, or no pickle at all",
	  .mend = { "'ckpt info IN' says what it is", "$ ckpt sanitize IN OUT" } },
	{ .pattern = "'(weights_only|mmap)' is an invalid keyword argument for",
	  .id = "torch_too_old",
	  .text = "this torch does not know the argument: weights_only is there since 1.13, mmap since 2.1",
	  .mend = { "leave the argument out, or take a newer torch" } },
	{ .pattern =
		  "mmap can only be used with files saved with|f must be a file path in order to use the mmap argument",
	  .id = "mmap",
	  .text = "mmap=True works only with the path of a file in the zip form, which torch.save writes since 1.6",
	  .mend = { ">>> torch.load(PATH)", "$ ckpt convert IN OUT" } },
	/* classes */
	{ .pattern =
		  "(?|No module named '([^']+)'|Can't get attribute (?=[^<]{1,300}<module '([^']+)')'([^']+)')",
	  .checks = { ckpt_why_explain_import } },
	{ .pattern = "module '([^']+)' has no attribute '([^']+)'",
	  .checks = { ckpt_why_explain_import } },
	/* quantized weights: transformers, vLLM, bitsandbytes, torchao, and torch about numbers of 8 bits */
	{ .pattern =
		  "There is no module or parameter named ['\"]?([^'\"\\s]{1,300}?(?:scales?|scale_inv|scale_2|zero_point|weight_packed|"
		  "weight_shape|g_idx|qweight|qzeros|absmax|quant_map|bitsandbytes__[nf]f?p?4|SCB|_blocks|_qdata))(?=['\"\\s])",
	  .checks = { ckpt_why_explain_quant_part } },
	{ .pattern = "\\| (?:UNEXPECTED|MISSING)\\b",
	  .checks = { ckpt_why_explain_quant_table, ckpt_why_check_wrapped, ckpt_why_check_nested,
		      ckpt_why_check_module },
	  .id = "other_model",
	  .text = "names differ: what is UNEXPECTED is in the checkpoint alone, and what is MISSING in the model alone, which keeps what it "
		  "was made with",
	  .mend = { "'ckpt ls IN' lists the names in the checkpoint" } },
	{ .pattern =
		  "Unknown quantization (?:type, got|method:) [`'\"]?([^\\s`'\"]{1,60}?)(?=[`'\".,]*(?:\\s|$))",
	  .checks = { ckpt_why_explain_quant_method } },
	{ .pattern =
		  "quantization method \\S{1,60} is not supported for the current GPU|fp8e4nv (?:data type is )?not supported|"
		  "FP8 quantized models is only supported on GPUs|A GPU or XPU is needed for FP8 quantization|"
		  "does not support BitsAndBytes quantization",
	  .checks = { ckpt_why_explain_quant_hardware } },
	{ .pattern =
		  "not implemented for 'Float8_|Promotion for Float8 Types is not supported|Undefined type Float8_|"
		  "have the same dtype, but got[^\\n]{1,60}(?:Float8_|signed char)",
	  .checks = { ckpt_why_explain_float8 } },
	{ .pattern = "object has no attribute '(" QUANT_ATTRIBUTES ")'",
	  .checks = { ckpt_why_explain_quant_attribute } },
	{ .pattern =
		  "Weight shape \\((\\d{1,18}), (\\d{1,18})\\) not divisible by scale grid \\((\\d{1,18}), (\\d{1,18})\\)",
	  .checks = { ckpt_why_explain_quant_grid } },
	{ .pattern =
		  "(?|Failed to find class (\\w{1,80}) in any of the allowed modules|Unsupported tensor type: (\\w{1,80}Tensor)\\b)",
	  .checks = { ckpt_why_explain_quant_class } },
	{ .pattern = "ValueError: No tensors found\\s*$|Invalid torchao safetensors metadata",
	  .checks = { ckpt_why_explain_quant_list } },
	{ .pattern =
		  "object has no attribute '(quant_state|SCB)'|FP4 quantization state not initialized",
	  .checks = { ckpt_why_explain_quant_state } },
	/* when what was loaded is used */
	{ .pattern =
		  "'(?:int|float|NoneType|tuple)' object has no attribute '(?:startswith|endswith|split)'",
	  .checks = { ckpt_why_check_nested },
	  .id = "not_a_dict",
	  .text = "load_state_dict() was given a dict with keys that are no names: a part of the checkpoint that is no state dict",
	  .mend = { "'ckpt info IN' shows what is in it" } },
	{ .pattern =
		  "'(?!int'|float'|NoneType'|tuple')([\\w.]+)' object has no attribute '(?!(?:quant_state|SCB|" QUANT_ATTRIBUTES
		  ")')(\\w+)'",
	  .checks = { ckpt_why_explain_attribute },
	  .id = "old_object",
	  .text = "an object that was saved whole has not what its class has today: it was saved with another version of that "
		  "class",
	  .mend = { "save weights, not models: ckpt convert --state-dict IN OUT, then load_state_dict()" } },
	{ .pattern = "KeyError: ['\"](?!Trying to restore |filename )([^'\"]{1,200})['\"]",
	  .checks = { ckpt_why_explain_entry },
	  .id = "no_entry",
	  .text = "the checkpoint has no such entry: the program that reads it expects another layout",
	  .mend = { "'ckpt info IN' lists the entries" } },
	/* files */
	{ .pattern =
		  "(?:No such file or directory|Is a directory|Not a directory|Permission denied): ['\"]?([^'\"\\n]*)",
	  .checks = { ckpt_why_explain_path },
	  .id = "no_file",
	  .text = "the file is not where the program looks, is a directory, or may not be read",
	  .mend = { "look at the path that the message names, from the folder in which the program runs" } },
	{ .pattern = "Parent directory (\\S+) does not exist",
	  .id = "no_folder",
	  .text = "torch.save makes no folders, and the one that the file is to be in does not exist",
	  .mend = { "os.makedirs(FOLDER, exist_ok=True) before torch.save" } },
	{ .pattern =
		  "PytorchStreamWriter failed writing file|file write failed|unexpected pos \\d+ vs \\d+|"
		  "No space left on device|write\\(\\): fd \\d+ failed|\\[Errno 27\\] File too large|Disk quota exceeded",
	  .checks = { ckpt_why_check_file },
	  .id = "disk_full",
	  .text = "the disk, or your share of it, was full while the checkpoint was saved: what is there of it is not whole",
	  .mend = { "make room ('df -h', 'df -i', 'quota') and save again",
		    "'ckpt latest DIR' finds the newest sound checkpoint" } },
	/* safetensors */
	{ .pattern =
		  "(?i)deserializing header: (?:HeaderTooLarge|header too large|InvalidHeader\\w*|invalid (?:UTF-8|JSON) in "
		  "header|invalid header\\w*|HeaderTooSmall|header too small|InvalidHeaderLength)",
	  .checks = { ckpt_why_check_program, ckpt_why_check_file, ckpt_why_check_nested },
	  .id = "not_safetensors",
	  .text = "the file is no safetensors file: a pointer of Git LFS, a web page, or a file of torch.save with another name",
	  .mend = { "'ckpt info IN' says what it is" } },
	{ .pattern = "(?i)deserializing header: (?:MetadataIncompleteBuffer|incomplete metadata)",
	  .checks = { NULL },
	  .id = "truncated",
	  .text = "the safetensors file ends too early: a download, a copy or a save broke off",
	  .mend = { ckpt_why_copy_again } },
	/* transformers */
	{ .pattern = "Error no file named (.{1,300}?) found in directory (\\S+)",
	  .checks = { ckpt_why_check_directory },
	  .id = "directory",
	  .text = "from_pretrained() looks for weights under certain names, and the directory has none of them: the weights "
		  "were not downloaded, are called otherwise, or are in a subfolder",
	  .mend = { "'ls -A IN'; a single file of torch.save is to be called pytorch_model.bin" } },
	{ .pattern = "serious vulnerability issue in .?torch\\.load",
	  .id = "transformers_version",
	  .text = "transformers reads pickles with torch 2.6 or later alone, since older ones do not keep what "
		  "weights_only=True promises",
	  .mend = { "install torch 2.6 or later",
		    "or take the weights as safetensors, which are loaded without" } },
	{ .pattern = "Unable to load weights from pytorch checkpoint file",
	  .checks = { ckpt_why_check_program, ckpt_why_check_file, ckpt_why_check_objects },
	  .id = "not_a_checkpoint",
	  .text = "transformers could not torch.load the file: it is a pointer of Git LFS, cut off, or no checkpoint; a model of "
		  "TensorFlow it is hardly ever",
	  .mend = { "'ckpt info IN' says what it is", ckpt_why_copy_again },
	  .general = true },
	/* Lightning, DeepSpeed */
	{ .pattern =
		  "checkpoint contains only the model\\. This is probably due to .?ModelCheckpoint\\.save_weights_only",
	  .id = "only_weights",
	  .text = "the checkpoint has the weights alone, without the state of optimizers and loops: a run cannot be resumed from "
		  "it",
	  .mend = { "begin a run from its weights: LitModel.load_from_checkpoint(PATH), then trainer.fit(model) without "
		    "ckpt_path",
		    "save the next ones with ModelCheckpoint(save_weights_only=False)" } },
	{ .pattern =
		  "Unable to find latest file at (\\S+)|Client provided checkpoint load path: (\\S+) does not exist",
	  .checks = { ckpt_why_check_directory },
	  .id = "no_file",
	  .text = "DeepSpeed looks for the file 'latest', which names the newest folder of a checkpoint: the path is not the folder "
		  "above it, or the save was interrupted",
	  .mend = { "name the folder that has 'latest' in it, or pass tag='global_stepN'" } },
	/* what says little */
	{ .pattern = "Weights only load failed",
	  .checks = { ckpt_why_check_file, ckpt_why_check_program, ckpt_why_check_objects },
	  .id = "weights_only",
	  .text = "there is more in the file than tensors and plain data, and torch.load refuses that since 2.6",
	  .mend = { "$ ckpt sanitize IN OUT", trusted, trust },
	  .general = true },
	{ .pattern = "You are using `torch\\.load` with `weights_only=False`",
	  .checks = { ckpt_why_check_objects },
	  .id = "warning_only",
	  .text = "a warning, no error: torch.load will refuse from 2.6 on what is not plain data",
	  .mend = { ">>> torch.load(PATH, weights_only=True)" },
	  .general = true },
	{ .pattern = "CheckpointException ranks|Error\\(s\\) in loading state_dict",
	  .checks = { ckpt_why_check_directory, ckpt_why_check_file, ckpt_why_check_wrapped,
		      ckpt_why_check_nested },
	  .general = true },
};

/* The word IN, OUT or PATH at AT; NULL: none of them. */
static const char *word_at(struct ckpt_why *w, const char *text, const char *at, size_t *len)
{
	*len = 0;
	if (at > text && ckpt_is_alnum((unsigned char)at[-1]))
		return NULL;
	while (ckpt_is_alnum((unsigned char)at[*len]))
		++*len;
	if (*len == 2 && !memcmp(at, "IN", 2))
		return ckpt_why_in(w);
	if (*len == 3 && !memcmp(at, "OUT", 3))
		return ckpt_why_out(w);
	if (*len == 4 && !memcmp(at, "PATH", 4))
		return ckpt_why_python_text(w, w->facts.path);
	return NULL;
}

static const char *fill_in_paths(struct ckpt_why *w, const char *text)
{
	const char *filled = "", *from = text;

	for (const char *at = text; *at; at++) {
		size_t len;
		const char *word = word_at(w, text, at, &len);

		if (!word)
			continue;
		filled = ckpt_why_print(w, "%s%.*s%s", filled, (int)(at - from), from, word);
		from = at + len;
		at = from - 1;
	}
	return ckpt_why_print(w, "%s%s", filled, from);
}

/* "$ command" and ">>> Python": lines to be pasted, if there is a file that they work on. */
static void add_advice(struct ckpt_why *w, const char *mend)
{
	bool command = !strncmp(mend, "$ ", 2), python = !strncmp(mend, ">>> ", 4);
	const char *text = command ? mend + 2 : python ? mend + 4 : mend;

	if (w->facts.path)
		text = fill_in_paths(w, text);
	if (command && w->facts.model)
		ckpt_why_command(w, "%s", text);
	else if (python && w->facts.model && strstr(mend, "torch.load("))
		ckpt_why_python_load(w, "%s", text);
	else if (python && w->facts.model)
		ckpt_why_python(w, "%s", text);
	else
		ckpt_why_words(w, "%s", text);
}

static bool explain(struct ckpt_why *w, const struct message *m, const struct ckpt_match *match)
{
	for (size_t i = 0; i < sizeof(m->checks) / sizeof(m->checks[0]) && m->checks[i]; i++)
		if (m->checks[i](w, match))
			return true;
	if (!m->id)
		return false;
	if (ckpt_why_begin(w, m->id, CKPT_CAUSE_LIKELY, "%s", m->text)) {
		for (size_t i = 0; i < sizeof(m->mend) / sizeof(m->mend[0]) && m->mend[i]; i++)
			add_advice(w, m->mend[i]);
		ckpt_why_end(w);
	}
	return true;
}

void ckpt_why_read_error(struct ckpt_why *w)
{
	for (int pass = 0; pass < 2; pass++) {
		if (pass && w->report.causes)
			return;
		for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
			const struct message *m = &messages[i];
			struct ckpt_match match;

			if (m->general != (pass == 1) || !ckpt_why_match(w, m->pattern, 0, &match))
				continue;
			w->report.messages++;
			explain(w, m, &match);
		}
	}
}
