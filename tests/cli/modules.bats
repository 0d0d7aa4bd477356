# SPDX-License-Identifier: Apache-2.0
# Modules that were saved whole, and TorchScript archives: what is shown, and that only their state dicts are written.
load common

setup_file() { export PYTHONDONTWRITEBYTECODE=1; }

make_files() {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 - <<-'END'
	from modules import *
	from files import number, torch_file
	net = whole([("weight", parameter("0"))], [("mean", tensor("0"))], [("sub", whole([("bias", parameter("0"))]))])
	open("whole.pt", "wb").write(torch_file(pickled(net)))
	open("inside.pt", "wb").write(torch_file(pickled(members([("model", net), ("ema", net), ("epoch", number(3))]))))
	open("net.jit", "wb").write(torch_script(pickled(NET), NET_CODE, pickled(tensor("0") + b"\x85"),
	                                         [("constants/0", b"c" * 16), ("extra/notes.txt", b"hello")]))
	END
}

@test "what a module holds goes by the names of its state dict, wherever it stands" {
	make_files
	ckpt ls -q inside.pt; want 0
	[ "${#lines[@]}" = 6 ]
	[[ ${lines[0]} = "model.weight "* && ${lines[1]} = "model.mean "* && ${lines[2]} = "model.sub.bias "* ]]
	[[ ${lines[5]} = "ema.sub.bias "*"shares storage with model.weight" ]]
	ckpt ls -q inside.pt model.sub; want 0
	[ "${#lines[@]}" = 1 ]
	ckpt info inside.pt; want 0
	[[ $output = *"  model                  Net, a module"*"  epoch                  3"* ]]
	ckpt info whole.pt; want 0
	[[ $output = *"root        Net, a module"* ]]
	ckpt extract -q model.sub.bias inside.pt bias.pt; want 0
	ckpt extract -q '["model"]["_modules"]["sub"]["_parameters"]["bias"]' inside.pt exact.pt; want 0
	cmp bias.pt exact.pt
	ckpt extract model.missing inside.pt none.pt
	[ "$status" = 2 ]
	want_files whole.pt inside.pt net.jit bias.pt exact.pt
}

@test "convert --state-dict writes a plain state dict, and --at says of which module" {
	make_files
	ckpt convert --state-dict whole.pt out.pt; want 0
	[[ $output = "3 tensors of the state dict, "*" written in "* ]]
	ckpt ls -q out.pt; want 0
	[[ ${lines[0]} = "weight "* && ${lines[1]} = "mean "* && ${lines[2]} = "sub.bias "* ]]
	ckpt convert --state-dict inside.pt none.pt
	want 64 "ckpt: inside.pt: holds 2 modules: 'model', 'ema'
hint: --at NAME says which one"
	ckpt convert --at ema.sub -q inside.pt sub.pt; want 0
	ckpt ls -q sub.pt; want 0
	[[ ${lines[0]} = "bias "* ]]
	ckpt convert --at epoch inside.pt none.pt; want 2 "ckpt: inside.pt: 'epoch' is no module but a int"
	ckpt convert --state-dict ddp_model.pt none.pt
	want 2 "ckpt: ddp_model.pt: holds no module, only what is in its dicts
hint: 'ckpt extract' takes a dict out of it"
	ckpt convert --state-dict -n whole.pt dry.pt; want 0
	want_files whole.pt inside.pt net.jit out.pt sub.pt
	input_is_untouched
}

@test "a TorchScript archive shows tensors, constants, code and extra files" {
	make_files
	ckpt ls -q net.jit; want 0
	[[ ${lines[0]} = "weight "* && ${lines[3]} = "sub.bias "* && ${lines[4]} = "constants.0 "* ]]
	ckpt info net.jit; want 0
	[[ $output = *"format      TorchScript, as torch.jit.save of torch "* ]]
	[[ $output = *"operators   version 3"*"code        1 file, "*"extra       1 file, 5 bytes: notes.txt"* ]]
	ckpt ls -q --records net.jit 'extra/*'; want 0
	[[ $output = "extra/notes.txt  extra "*" 5" ]]
	ckpt dis net.jit constants.pkl; want 0
	[[ ${lines[-1]} = *": STOP" ]]
	"$CKPT" info --json net.jit | python3 -c 'import json, sys
file = json.load(sys.stdin)["file"]
assert file["format"] == "TorchScript" and file["version"] == 3 and file["profile"] == "", file'
}

@test "only the state dict of a TorchScript archive is written, and edits say why" {
	make_files
	cp net.jit before
	ckpt convert net.jit out.pt; want 0
	[[ $output = "3 tensors of the state dict, "* ]]
	ckpt ls -q out.pt; want 0
	[[ ${#lines[@]} = 3 && ${lines[1]} = "mean "* ]]
	local why="is a TorchScript archive: an object of its class 'Net' has code, which only torch can write; \
'ckpt convert' takes the state dict out"
	for edit in 'cast bf16' 'remap cpu=cuda:0' 'cast --if-present fp16'; do
		# shellcheck disable=SC2086
		ckpt $edit net.jit none.pt; want 2 "ckpt: net.jit: $why"
	done
	ckpt extract sub net.jit none.pt; want 2 "ckpt: net.jit: ${why/Net/Sub}"
	ckpt split --ranks 2 net.jit none; want 2 "ckpt: net.jit: $why"
	ckpt remap -i cpu=cuda:0 net.jit
	want 2 "ckpt: net.jit: is a TorchScript archive, which only torch can write; 'ckpt convert' takes the state dict out"
	ckpt convert --to torch-legacy net.jit legacy.pt; want 0
	ckpt ls -q legacy.pt; want 0
	[ "${#lines[@]}" = 3 ]
	cmp net.jit before
	want_files whole.pt inside.pt net.jit before out.pt legacy.pt
}

@test "no edit of keys touches what a module calls its own" {
	make_files
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 - <<-'END'
	from modules import *
	from files import number, torch_file
	net = whole([("weight", parameter("0"))], [("mean", tensor("0"))], [("module", whole([("module.bias", parameter("0"))]))])
	plain = members([("module.weight", tensor("0")), ("module.bias", tensor("0"))])
	open("both.pt", "wb").write(torch_file(pickled(members([("net", net), ("state", plain), ("epoch", number(3))]))))
	END
	for file in whole.pt net.jit; do
		for edit in add-module "add-prefix x." "strip-module --if-present" "strip-prefix --anywhere sub." "rename --if-present -e s/weight/w/" "rename -e s/_/x/g"; do
			ckpt $edit $file out.pt
			want 2 "ckpt: $file: is one module, saved whole: its code looks its members up by their names, which stay; 'ckpt convert --state-dict' takes its state dict out"
		done
	done
	ckpt add-module inside.pt out.pt; want 2 "ckpt: inside.pt: no state dict of a module was found"
	for edit in "add-prefix x." strip-module "strip-prefix --anywhere module." "rename -e s/weight/w/"; do
		ckpt $edit both.pt out.pt; want 0
		ckpt extract -q net both.pt one.pt; want 0
		ckpt extract -q net out.pt two.pt; want 0
		cmp <("$CKPT" dis one.pt) <("$CKPT" dis two.pt)
		! cmp -s <("$CKPT" ls -q both.pt state) <("$CKPT" ls -q out.pt state) || false
		rm out.pt one.pt two.pt
	done
	ckpt info both.pt; want 0
}
