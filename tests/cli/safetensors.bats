# SPDX-License-Identifier: Apache-2.0
# Safetensors files on the command line. That they hold what they have to is for tests/interop/as_safetensors.py to say.
load common

# A torch file of tensors and of what else there may be, by the names in "$@"
make() {
	python3 -B - "$CKPT_SOURCE_DIR/tests/bad" "$@" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
from files import archive, glob, number, pickled, tensor, text, FOUR_FLOATS

values = {
    "w": text("w") + tensor(),
    "tied": text("tied") + tensor(),
    "part": text("part") + tensor(shape=(2,)),
    "other": text("other") + tensor("1"),
    "epoch": text("epoch") + number(3),
    "seven": number(7) + tensor(),
    "double": text("double") + tensor("1", "ComplexDoubleStorage", 1, (1,), (1,)),
}
body = glob("collections", "OrderedDict") + b")R(" + b"".join(values[name] for name in sys.argv[2:]) + b"u"
open("made.pt", "wb").write(archive([("data.pkl", pickled(body)), ("data/0", FOUR_FLOATS),
                                     ("data/1", FOUR_FLOATS), ("version", b"3\n")]))
PY
}

names() { "$CKPT" ls "$1" | sed '$d' | cut -d' ' -f1 | paste -sd' '; }

@test "OUT's name says the format, and --to says it louder" {
	ckpt convert ddp_model.pt out.safetensors; want 0
	ckpt info out.safetensors
	[[ $output = *"format      safetensors"* && $output = *"metadata    format = pt"* ]]
	ckpt convert --to safetensors ddp_model.pt other; want 0
	cmp out.safetensors other
	ckpt convert --to torch out.safetensors back.safetensors; want 0
	ckpt info back.safetensors
	[[ $output = *"format      torch zip"* ]]
	input_is_untouched
}

@test "there and back it is the same checkpoint" {
	ckpt convert ddp_model.pt out.safetensors; want 0
	ckpt convert out.safetensors back.pt; want 0
	ckpt diff ddp_model.pt back.pt; want 0
	ckpt convert back.pt again.safetensors; want 0
	cmp out.safetensors again.safetensors
}

@test "edits go along, in the order given" {
	ckpt convert ddp_trainer.pt out.safetensors --strip-module --cast bf16 --rename 's/^/net./'; want 0
	[[ $output = "'model', "*" left behind, 14 keys renamed in the state dict, 12 tensors cast, "*" written in "* ]]
	ckpt ls out.safetensors
	[[ $output = "net."*"bfloat16"* && $output != *module.* ]]
	ckpt convert ddp_trainer.pt no.safetensors --strip-prefix nope.
	want 1 "ckpt: ddp_trainer.pt: no key begins with 'nope.', nothing was written
hint: --if-present writes OUT unchanged instead, with exit code 0"
	ckpt convert ddp_trainer.pt yes.safetensors --strip-prefix nope. --if-present
	want 0 "ckpt: note: 14 of 14 keys begin with 'module.' still
hint: for a plain model: ckpt convert --strip-prefix nope. --if-present ddp_trainer.pt yes.safetensors -f --strip-prefix module."
	want_files out.safetensors yes.safetensors
}

@test "--extract, --keep and --drop go by the names of the whole" {
	ckpt convert ddp_trainer.pt out.safetensors --drop 'optimizer*' --drop '*.bias'; want 0
	[[ $(names out.safetensors) = module.*weight* && $(names out.safetensors) != *bias* ]]
	ckpt convert ddp_trainer.pt whole.safetensors --extract model; want 0
	ckpt convert ddp_trainer.pt default.safetensors; want 0
	cmp whole.safetensors default.safetensors
}

@test "torch's format takes edits as well" {
	ckpt convert ddp_model.pt out.pt --strip-module; want 0
	ckpt strip-module ddp_model.pt plain.pt; want 0
	ckpt diff out.pt plain.pt; want 0
}

@test "--at picks the state dict, an optimizer is never picked without" {
	ckpt convert ddp_trainer.pt out.safetensors --at model; want 0
	[[ $output = "'model', "*" tensors beside it left behind, "* ]]
	[ "${lines[1]}" = "left behind: 'optimizer', 'scheduler', 'epoch', 'global_step', 'best_loss', 'history', 'args', 'torch_version'" ]
	ckpt convert ddp_trainer.pt no.safetensors --at modle
	want 2 "ckpt: ddp_trainer.pt: nothing is named 'modle'
hint: did you mean 'model'?"
	ckpt convert ddp_trainer.pt no.safetensors --at epoch
	[[ $status = 2 && $stderr = "ckpt: ddp_trainer.pt: 'epoch' is no state dict but an int"* ]]
	ckpt select --drop model ddp_trainer.pt rest.pt; want 0
	ckpt convert rest.pt no.safetensors
	want 2 "ckpt: rest.pt: holds no state dict"
	ckpt extract model.module.stem.0.weight ddp_trainer.pt one.pt; want 0
	ckpt convert one.pt no.safetensors
	want 2 "ckpt: one.pt: holds no state dict"
	want_files out.safetensors rest.pt one.pt
}

@test "what cannot be written is listed, and --drop-others leaves it out" {
	make w epoch seven double
	ckpt convert made.pt out.safetensors
	want 2 "ckpt: made.pt: 3 entries cannot be written as safetensors:
  'epoch' is not a tensor but an int
  '7' has a key that is not a str but int
  'double' is complex128, which the format does not have
hint: --drop-others leaves them out"
	want_files made.pt
	ckpt convert --drop-others -n made.pt out.safetensors; want 0
	[ "$output" = "3 other entries left out, 112 bytes would be written (dry run)" ]
	ckpt convert --drop-others made.pt out.safetensors; want 0
	[ "$(names out.safetensors)" = w ]
}

@test "more than twenty are counted" {
	python3 -B - "$CKPT_SOURCE_DIR/tests/bad" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
from files import archive, number, state_dict, tensor, FOUR_FLOATS
data = state_dict(w=tensor(), **{"n%02d" % i: number(i) for i in range(33)})
open("made.pt", "wb").write(archive([("data.pkl", data), ("data/0", FOUR_FLOATS), ("version", b"3\n")]))
PY
	ckpt convert made.pt out.safetensors
	[[ $status = 2 && $stderr = *": 33 entries cannot"*"'n19' is not a tensor but an int
  and 13 more
hint: "* && $stderr != *n20* ]]
}

@test "tensors that share bytes: error, clone or alias" {
	make other w tied
	ckpt convert made.pt out.safetensors
	want 2 "ckpt: made.pt: 'tied' and 'w' share their bytes
hint: --shared clone writes each of them; --shared alias writes one, and the others' names"
	ckpt convert --shared clone made.pt clone.safetensors; want 0
	[[ $output = "1 tensor no longer shares its bytes, "* ]]
	ckpt convert --shared alias made.pt alias.safetensors; want 0
	[[ $output = "1 tensor is an alias of another, "* ]]
	ckpt info alias.safetensors
	[[ $output = *"w = tied"*"in 2 storages"* ]]
	ckpt ls clone.safetensors
	[[ $output != *shares* ]]
	for file in alias clone; do
		ckpt convert $file.safetensors $file.pt; want 0
		ckpt diff made.pt $file.pt; want 0
	done
	ckpt ls alias.pt
	[[ $output = *"w "*"shares storage with tied"* ]]
	ckpt convert --shared maybe made.pt out.safetensors
	[[ $status = 64 && $stderr = "ckpt: convert: --shared maybe: wanted 'error', 'clone' or 'alias'"* ]]
}

@test "aliases are for equal tensors only, and follow what is renamed" {
	make w part
	ckpt convert --shared alias made.pt out.safetensors
	want 2 "ckpt: made.pt: 'part' and 'w' share bytes, and are not the same: there is no name for that
hint: --shared clone writes each of them"
	make w tied
	ckpt convert --shared alias made.pt alias.safetensors; want 0
	ckpt rename -e s/tied/a/ alias.safetensors renamed.safetensors; want 0
	[ "$(names renamed.safetensors)" = "a w" ]
	ckpt select --drop tied alias.safetensors one.safetensors; want 0
	ckpt info one.safetensors
	[[ $output = *"tensors     1,"* && $output != *" = tied"* ]]
}

@test "columns of one matrix share nothing" {
	python3 -B - "$CKPT_SOURCE_DIR/tests/bad" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
from files import archive, state_dict, tensor, FOUR_FLOATS
data = state_dict(q=tensor(shape=(2, 1), stride=(2, 1)), k=tensor(shape=(2, 1), stride=(2, 1), offset=1))
open("made.pt", "wb").write(archive([("data.pkl", data), ("data/0", FOUR_FLOATS), ("version", b"3\n")]))
PY
	ckpt convert made.pt out.safetensors; want 0
	"$CKPT" cat out.safetensors k | grep -q '2' && "$CKPT" cat out.safetensors q | grep -q '3'
	ckpt diff made.pt out.safetensors; want 0
}

@test "edits of a safetensors file keep the format, also in place" {
	ckpt convert ddp_model.pt model.safetensors; want 0
	ckpt strip-module model.safetensors plain.safetensors; want 0
	ckpt convert --strip-module ddp_model.pt wanted.safetensors; want 0
	cmp plain.safetensors wanted.safetensors
	ckpt strip-module -i model.safetensors; want 0
	[[ $output = "14 keys renamed in the state dict, written anew as a safetensors file has no room for a change, "* ]]
	cmp model.safetensors wanted.safetensors
	ckpt convert model.safetensors same.safetensors; want 0
	cmp same.safetensors wanted.safetensors
}

@test "an edit writes no format under another one's name" {
	ckpt strip-module ddp_model.pt out.safetensors
	want 2 "ckpt: out.safetensors: an edit keeps the format, and ddp_model.pt is not a safetensors file
hint: ckpt convert ddp_model.pt out.safetensors --strip-module"
	ckpt convert ddp_model.pt model.safetensors; want 0
	ckpt strip-module model.safetensors out.pt
	want 2 "ckpt: out.pt: an edit keeps the format, and model.safetensors is a safetensors file
hint: ckpt convert model.safetensors out.pt --strip-module"
	ckpt strip-module --at model ddp_trainer.pt out.safetensors
	want 2 "ckpt: out.safetensors: an edit keeps the format, and ddp_trainer.pt is not a safetensors file
hint: 'ckpt convert' takes the same edits as options, and writes the format of OUT's name"
	want_files model.safetensors
}

@test "an edit that leaves no dict of tensors is refused" {
	ckpt convert ddp_model.pt model.safetensors; want 0
	ckpt extract module.stem.0.weight model.safetensors out.safetensors
	want 2 "ckpt: model.safetensors: is one tensor without a name, safetensors holds named ones"
	want_files model.safetensors
}

@test "devices are none of a safetensors file's business" {
	ckpt convert ddp_model.pt model.safetensors; want 0
	ckpt remap --all cuda:0 model.safetensors out.safetensors
	want 2 "ckpt: model.safetensors: a safetensors file says nothing of devices
hint: safetensors.torch.load_file(FILE, device=...) says where it goes"
	ckpt convert --remap cpu=cuda ddp_model.pt out.safetensors
	[[ $status = 64 && $stderr = "ckpt: convert: --remap means nothing in the format 'safetensors'"* ]]
	ckpt convert --remap cpu=cuda model.safetensors out.pt; want 0
	want_files model.safetensors out.pt
}

@test "nor of a set of them" {
	"$CKPT" convert -q ddp_model.pt set --to safetensors --shard-size 2K
	"$CKPT" split -q ddp_model.pt ranks --ranks 2 --to safetensors
	for kind in set ranks; do
		ckpt remap --all cuda:0 $kind out; [ "$status" = 2 ]; [ ! -e out ]
		[[ $stderr = "ckpt: $kind: "*" nothing of devices"* ]]
		ckpt remap -i cpu=cuda:0 $kind; [ "$status" = 2 ]
		ckpt edit --add-module --remap-all cuda:0 $kind out; [ "$status" = 2 ]; [ ! -e out ]
	done
}

@test "a merge of shards is a safetensors file if its name says so" {
	ckpt split --ranks 2 ddp_trainer.pt shards; want 0
	ckpt merge shards out.safetensors; want 0
	ckpt convert ddp_trainer.pt wanted.safetensors; want 0
	cmp out.safetensors wanted.safetensors
}

@test "options of torch's format mean nothing here" {
	for option in "--alignment 64" "--crc on" "--profile 2.0" "--from-byteorder big"; do
		ckpt convert $option ddp_model.pt out.safetensors
		[[ $status = 64 && $stderr = "ckpt: convert: ${option% *} means nothing in the format 'safetensors'"* ]]
	done
	ckpt convert --byteorder big ddp_model.pt out.safetensors
	[[ $status = 64 && $stderr = "ckpt: convert: the format 'safetensors' is little-endian always"* ]]
	for option in "--shared clone" --drop-others; do
		ckpt convert $option ddp_model.pt out.pt
		[[ $status = 64 && $stderr = "ckpt: convert: ${option% *} means nothing in the format 'torch'"* ]]
	done
	want_files
}

@test "every command that reads takes them" {
	ckpt convert ddp_trainer.pt model.safetensors; want 0
	ckpt stat model.safetensors; want 0
	ckpt verify model.safetensors; want 0
	ckpt verify --require-checksums model.safetensors; want 2
	[[ $output = *": a safetensors file has no checksums: nothing tells if its header and its "* ]]
	ckpt scan model.safetensors; want 0
	[ "$output" = "model.safetensors: plain: safetensors" ]
	ckpt why model.safetensors
	[[ $output = "cause: it is a safetensors file"*"ckpt convert model.safetensors OUT.pt"* ]]
	ckpt dis model.safetensors
	want 2 "ckpt: model.safetensors: is a safetensors file: there is no pickle in it"
	ckpt split --ranks 2 model.safetensors shards; want 0
	ckpt diff shards model.safetensors; want 0
	python3 -c 'import zipfile; z = zipfile.ZipFile("a.zip", "w"); z.write("model.safetensors"); z.close()'
	ckpt diff a.zip::model.safetensors model.safetensors; want 0
	mkdir run && cp model.safetensors run/
	ckpt latest run
	want 0 "ckpt: run/model.safetensors: has no checksums; nothing else is wrong with it"
	[ "$output" = run/model.safetensors ]
	head -c 3000 model.safetensors >run/torn.safetensors && touch -d tomorrow run/torn.safetensors
	ckpt latest run
	[[ $status = 0 && $output = run/model.safetensors ]]
	ckpt why run/torn.safetensors
	[[ $output = "cause: the file ends too early"* ]]
}


@test "the name of a format that cannot be written is refused" {
	for name in model.gguf model.onnx model.h5 tf_model.msgpack; do
		ckpt convert ddp_model.pt $name
		want 2 "ckpt: $name: '.${name##*.}' is the name of a format that cannot be written; wanted a name such as model.pt, model.safetensors or model.npz
hint: --to torch writes torch's format under that name"
	done
	want_files
	ckpt convert --to torch ddp_model.pt model.gguf; want 0
	ckpt diff model.gguf ddp_model.pt; want 0
}

@test "what is left behind beside the weights is named, also where no tensor is" {
	"$CKPT" edit -q ddp_trainer.pt few.pt --keep model --keep epoch --keep global_step
	"$CKPT" split -q --ranks 2 few.pt dcp
	for in in few.pt dcp; do
		ckpt convert $in $in.safetensors
		[[ $status = 0 && ${lines[-1]} = "left behind: 'epoch', 'global_step'" ]]
	done
	ckpt convert ddp_model.pt alone.safetensors
	[[ $output != *"left behind"* ]]
}
