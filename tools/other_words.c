/* SPDX-License-Identifier: Apache-2.0 */
#include "command.h"

#include <string.h>

/* What people type that is no command, and what does it. A test runs over all of them. */

static const struct {
	const char *words; /* between spaces */
	const char *says;
} others[] = {
	{ " avg mean soup merge-models mix blend interpolate swa ema ",
	  "'ckpt average A B... OUT' writes the mean of checkpoints" },
	{ " list dir tree tensors keys names ", "'ckpt ls FILE' lists the tensors" },
	{ " show inspect summary head file describe size du count params ",
	  "'ckpt info FILE' shows what is in a file, 'ckpt ls FILE' its tensors, 'ckpt cat FILE NAME' one of them" },
	{ " print view get dump slice numpy ",
	  "'ckpt cat FILE NAME' prints one tensor, or writes it with -o" },
	{ " strip unwrap ddp ",
	  "'ckpt strip-prefix PREFIX IN OUT' takes a prefix off the keys, 'ckpt strip-module' takes 'module.'" },
	{ " prefix ", "'ckpt strip-prefix' takes one off the keys, 'ckpt add-prefix' puts one on" },
	{ " mv sed map ", "'ckpt rename -e s/A/B/ IN OUT' renames keys" },
	{ " rm del delete remove drop keep filter subset pick ",
	  "'ckpt select --keep PATTERN' or '--drop PATTERN' keeps or drops entries" },
	{ " take pop weights ", "'ckpt extract NAME IN OUT' makes a part the whole" },
	{ " to dtype half bf16 fp16 fp32 fp8 float16 bfloat16 quantize downcast ",
	  "'ckpt cast DTYPE IN OUT' casts floating tensors; no command quantizes" },
	{ " device move cpu cuda gpu ", "'ckpt remap --all DEVICE IN OUT' changes the devices" },
	{ " shrink prune trim gc clean vacuum dedup ",
	  "'ckpt compact IN OUT' drops bytes that no tensor shows" },
	{ " export save onnx safetensors npz npy gguf ",
	  "'ckpt convert IN OUT' writes the format of OUT's name: safetensors, torch, npz; no ONNX, no GGUF" },
	{ " shard ",
	  "'ckpt convert --shard-size 5GB' writes a shard set, 'ckpt split --ranks N' a DCP directory" },
	{ " unshard join consolidate combine concat gather unzip ",
	  "'ckpt merge DIR OUT' makes one file of a sharded checkpoint; 'ckpt average' writes a mean" },
	{ " check validate test fsck hash sum checksum sha256 md5 crc ",
	  "'ckpt verify FILE' checks every checksum" },
	{ " nan finite norm norms stats hist histogram ",
	  "'ckpt stat FILE' says what is in the values" },
	{ " fix recover restore salvage rescue ", "'ckpt repair IN OUT' saves what is whole" },
	{ " safe security audit lint picklescan ", "'ckpt scan FILE' says what a load would run" },
	{ " cmp compare equal same ", "'ckpt diff A B' compares two checkpoints" },
	{ " last newest resume ", "'ckpt latest FOLDER' prints the newest sound checkpoint" },
	{ " bcast distribute send sync scatter ",
	  "'ckpt broadcast' copies a file to every node of a job" },
	{ " load open doctor debug explain ",
	  "'ckpt why FILE' says why a checkpoint does not load" },
	{ " disassemble disasm pickle opcodes ", "'ckpt dis FILE' prints the pickle" },
	{ " man usage commands ", "'ckpt help COMMAND' explains a command" },
	{ " set put assign update modify change ",
	  "'ckpt edit IN OUT --set NAME=VALUE' sets a number or a text; 'ckpt help edit' lists the edits" },
	{ " cp copy clone ",
	  "cp does that, ckpt adds nothing; 'ckpt convert IN OUT' writes another format" },
	{ " lora peft adapter merge-lora merge-adapter fuse ",
	  "no: ckpt adds no LoRA adapter to its base; in Python, PEFT does: PeftModel.from_pretrained(base, 'DIR').merge_and_unload()" },
	{ " add sub subtract delta task-vector ",
	  "no: ckpt adds no difference to a model; 'ckpt average --weights' is all the arithmetic it has" },
	{ " download fetch pull push upload hub ", "no: ckpt downloads and uploads nothing; it works on files" },
	{ " train run eval generate infer exec ",
	  "no: ckpt runs no model, and nothing of what a file says" },
};

const char *other_word(const char *word)
{
	char spaced[40];

	if (snprintf(spaced, sizeof(spaced), " %s ", word) >= (int)sizeof(spaced) ||
	    strchr(word, ' '))
		return NULL;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strstr(others[i].words, spaced))
			return others[i].says;
	return NULL;
}
