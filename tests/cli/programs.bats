# SPDX-License-Identifier: Apache-2.0
# Archives of torch.package and torch.export, mobile models: what is shown, and that only what is taken out of them is written.
load common

setup_file() { export PYTHONDONTWRITEBYTECODE=1; }

make_files() {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 - <<-'END'
	import zipfile
	from files import torch_file
	from test_mobile import MODEL
	from test_programs import package, payload, pickle_of, program, tensor
	open("p.pt", "wb").write(package(("models/m.pkl", pickle_of(a=tensor())), ("models/n.pkl", pickle_of(b=tensor())),
	                                 ("mine/code.py", b"x = 1\n"), ("notes.txt", b"hello")))
	weights = {"fc.weight": payload(is_param=True, grad=True), "tied": payload(is_param=True, grad=True)}
	open("m.pt2", "wb").write(program(weights, extra=[("extra/notes.txt", b"hello")]))
	with zipfile.ZipFile("old.pt2", "w") as out:
	    for name, data in (("serialized_exported_program.json", "{}"), ("serialized_state_dict.pt", torch_file()),
	                       ("serialized_constants.pt", torch_file()), ("version", "8.2")):
	        out.writestr(name, data)
	open("m.ff", "wb").write(MODEL)
	END
}

@test "a package: every pickle by its path" {
	make_files
	ckpt ls -q p.pt; want 0
	[ "$output" = "models/m.pkl.a  float32  [4]  cpu      16
models/n.pkl.b  float32  [4]  cpu      16  shares storage with models/m.pkl.a" ]
	ckpt info p.pt; want 0
	[[ $output = *"format      torch package, as torch.package under Python 3.11.2 writes it"* ]]
	[[ $output = *"code        1 file, 6 bytes"*"extra       1 file, 5 bytes: notes.txt"* ]]
	ckpt ls --records p.pt; want 0
	[[ $output = *".data/0.storage       storage"*"models/m.pkl          pickle"*"mine/code.py          code"* ]]
	ckpt dis p.pt models/n.pkl; want 0
	[[ ${lines[0]} = *"PROTO 3" ]]
	ckpt dis p.pt
	want 2 "ckpt: p.pt: there is no record 'data.pkl'
hint: 'ckpt ls --records' lists those that are there"
	ckpt convert -q p.pt both.pt; want 0
	ckpt ls -q both.pt models/n.pkl; want 0
	[ "$output" = "models/n.pkl.b  float32  [4]  cpu      16" ]
	ckpt extract -q models/n.pkl p.pt one.pt; want 0
	ckpt ls -q one.pt; want 0
	[ "$output" = "b  float32  [4]  cpu      16" ]
}

@test "a program of torch.export, old and new: convert writes its state dict" {
	make_files
	ckpt ls -q m.pt2; want 0
	[ "$output" = "state_dict.fc.weight  float32  [4]  cpu      16
state_dict.tied       float32  [4]  cpu      16  shares storage with state_dict.fc.weight" ]
	ckpt info m.pt2; want 0
	[[ $output = *"torch.export of torch 2.7 or later (version 0 of its archive)"*"extra       1 file, 5 bytes: notes.txt"* ]]
	ckpt convert m.pt2 new.pt; want 0
	[[ $output = "2 tensors of the state dict, "* ]]
	ckpt ls -lq new.pt; want 0
	[ "$output" = "fc.weight  float32  [4]  cpu      16  offset 0  stride [1]  storage 0 of 16 bytes
tied       float32  [4]  cpu      16  offset 0  stride [1]  storage 0 of 16 bytes  shares storage with fc.weight" ]
	ckpt info old.pt2; want 0
	[[ $output = *"torch.export of torch 2.1 to 2.6 (version 8.2 of its schema)"* ]]
	ckpt ls -q old.pt2; want 0
	[ "$output" = "state_dict.weight  float32  [4]  cpu      16
constants.weight   float32  [4]  cpu      16" ]
	ckpt dis old.pt2 serialized_state_dict.pt; want 0
	[[ ${lines[0]} = *"PROTO 2" ]]
	ckpt convert -q old.pt2 old.pt; want 0
	ckpt ls -q old.pt; want 0
	[ "$output" = "weight  float32  [4]  cpu      16" ]
	ckpt convert -q --at constants old.pt2 none.pt
	want 2 "ckpt: old.pt2: 'constants' is not the state dict of a program"
	want_files p.pt m.pt2 old.pt2 m.ff new.pt old.pt
}

@test "a mobile model" {
	make_files
	ckpt ls -q m.ff; want 0
	[ "$output" = "w  float32  [4]  cpu      16" ]
	ckpt info m.ff; want 0
	[[ $output = *"format      torch mobile, as the lite interpreter of torch (bytecode version 9) writes it"* ]]
	[[ $output = *"operators   version 1"* ]]
	ckpt ls --records -q m.ff; want 0
	[ "$output" = "storage_data/0  storage       16" ] || { printf '%q\n' "$output" >&2; return 1; }
	ckpt convert m.ff state.pt; want 0
	[[ $output = "1 tensor of the state dict, of 1 module without source all tensors were taken, "* ]]
}

@test "what they are themselves is not written, and says what to do" {
	make_files
	cp p.pt p2.pt; cp m.pt2 m2.pt2; cp m.ff m2.ff
	for file in p.pt m.pt2; do
		ckpt remap cpu=cuda:0 $file out.pt; [ "$status" = 2 ]
		[[ $stderr = *" is not written, only read"*"'ckpt convert'"* ]]
		ckpt remap cpu=cuda:0 -i $file; [ "$status" = 2 ]
		[[ $stderr = *" is not written, only read"* ]]
	done
	ckpt remap cpu=cuda:0 m.ff out.pt
	want 2 "ckpt: m.ff: is a mobile model, whose code only torch can write; 'ckpt convert' takes its state dict out"
	ckpt remap cpu=cuda:0 -i m.ff; [ "$status" = 2 ]
	cmp p.pt p2.pt; cmp m.pt2 m2.pt2; cmp m.ff m2.ff
	want_files p.pt p2.pt m.pt2 m2.pt2 m.ff m2.ff old.pt2
}
