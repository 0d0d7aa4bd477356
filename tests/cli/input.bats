# SPDX-License-Identifier: Apache-2.0
# Reading: what is listed, as table and as JSON, and what is said when IN is not there.
load common

@test "ls lists every tensor" {
	ckpt ls ddp_model.pt
	want 0
	[ "${#lines[@]}" = 15 ]
	[ "${lines[0]}" = "module.stem.0.weight                   float32  [8, 3, 3, 3]  cpu     864" ]
	[ "${lines[6]}" = "module.block.conv.weight               float32  [8, 8, 3, 3]  cpu    2.3K" ]
	[ "${lines[14]}" = "14 tensors, 948 elements, 3.8K in 14 storages" ]
}

@test "ls takes patterns, and says if none matches" {
	ckpt ls -q ddp_model.pt '*.bias'; want 0
	[ "${#lines[@]}" = 3 ]
	ckpt ls -q ddp_model.pt module.head 're:running_(mean|var)$'; want 0
	[ "${#lines[@]}" = 6 ]
	ckpt ls ddp_model.pt nothing
	[ "$status" = 1 ]
	[[ $stderr = "ckpt: ddp_model.pt: no tensor matches"* ]]
	ckpt ls ddp_model.pt 're:('
	want 64 "ckpt: pattern 're:(': missing closing parenthesis"
}

@test "ls sorts by name and by size" {
	ckpt ls -q --sort size ddp_model.pt; want 0
	[[ ${lines[0]} = module.block.conv.weight* ]]
	ckpt ls -q --sort name ddp_model.pt; want 0
	[[ ${lines[0]} = module.block.conv.weight* && ${lines[13]} = module.stem.1.weight* ]]
	ckpt ls --sort age ddp_model.pt
	want 64 "ckpt: ls: --sort age: wanted 'name', 'size' or 'storage'
usage: ckpt ls [OPTIONS] IN [IN...] [PATTERN...]
hint: 'ckpt ls --help' shows the options"
}

@test "ls adds up what is below the first parts of names" {
	ckpt ls --parameters --depth 3 --json ddp_trainer.pt; want 0
	[[ $output = *'"count":8,"elements":914,'* ]]
	ckpt ls --parameters ddp_trainer.pt; want 0
	[ "${lines[-1]}" = "8 tensors, 914 elements, 3.7K in 8 storages" ]
	ckpt ls --parameters -m 'optimizer' ddp_trainer.pt; want 1 "ckpt: ddp_trainer.pt: no parameter matches"
	ckpt ls --parameters --records ddp_trainer.pt
	[ "$status" = 64 ]
	ckpt ls --depth 2 ddp_model.pt; want 0
	[ "$output" = "module.stem   6 tensors  249 elements    1.0K   26.3%
module.block  6 tensors  609 elements    2.4K   64.2%
module.head   2 tensors   90 elements     360    9.5%
14 tensors, 948 elements, 3.8K in 3 groups" ]
	ckpt ls -q --depth 1 --sort size ddp_trainer.pt; want 0
	[[ ${lines[0]} = "optimizer  24 tensors "* && ${lines[1]} = "model "* && ${#lines[@]} = 2 ]]
	ckpt ls -q --depth 3 --sort name ddp_model.pt '*.weight'; want 0
	[[ ${lines[0]} = "module.block.conv "*" 1 tensor "* ]]
	ckpt ls --json --depth 1 ddp_trainer.pt; want 0
	python3 - "$output" <<-'END'
	import json, sys
	d = json.loads(sys.argv[1])
	assert d["count"] == 38 == len(d["tensors"]) and list(d)[-1] == "groups", list(d)
	model, optimizer = d["groups"]
	assert (model["name"], model["tensors"], optimizer["tensors"]) == ("model", 14, 24), d["groups"]
	assert abs(model["share"] + optimizer["share"] - 1) < 1e-9 and model["nbytes"] + optimizer["nbytes"] == d["nbytes"], d["groups"]
	END
	ckpt ls --depth 1 ddp_model.pt ddp_trainer.pt; want 0
	[[ ${lines[0]} = "ddp_model.pt: module  14 tensors "* ]]
	ckpt ls -q --depth module ddp_model.pt; want 0
	[[ $output = *$'\nmodule.head  '*"2 tensors "* && $output = "module.stem.0 "*"1 tensor "* ]]
	ckpt ls -q --depth module ddp_trainer.pt optimizer; want 0
	[[ ${lines[0]} = "optimizer.state.0  3 tensors "* ]]
	ckpt ls --depth 99 -q ddp_model.pt; want 0
	[ "${#lines[@]}" = 14 ]
	for bad in 0 x -1 1x modules 99999999999999999999; do
		ckpt ls --depth $bad ddp_model.pt
		[ "$status" = 64 ]
		[[ $stderr = "ckpt: ls: --depth $bad: wanted a number from 1 on"* ]]
	done
	for with in --long --records --sort=storage; do
		ckpt ls --depth 1 $with ddp_model.pt
		[ "$status" = 64 ]
	done
}

@test "ls says that a tensor is a part of a storage, and what is tied counts once in a group" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	body = b"}(" + text("a.w") + tensor(shape=(1,), offset=1) + text("a.v") + tensor(shape=(1,), offset=1) + text("b.w") + tensor(shape=(1,), offset=1)
	body += text("b.c") + tensor(key="1", shape=(4,)) + b"u"
	open("views.pt", "wb").write(torch_file(pickled(body), extra=[("data/1", FOUR_FLOATS)]))
	END
	ckpt ls views.pt; want 0
	[[ ${lines[0]} = "a.w  float32  [1]  cpu       4 of 16" ]]
	[[ ${lines[3]} = "b.c  float32  [4]  cpu      16" ]]
	ckpt ls -b --sort storage views.pt a.w b.c; want 0
	[[ ${lines[0]} = *"       4 of 16" ]]
	ckpt ls --depth 1 views.pt; want 0
	[ "$output" = "a  2 tensors  1 element        4   20.0%
b  2 tensors  5 elements      20  100.0%
4 tensors, 5 elements, 20 in 2 groups" ]
	ckpt info views.pt; want 0
	[[ $output = *"
parameters  5, buffers 0; told by names
larger by "*"12 that no tensor shows: 3 tensors show a part of a storage, 'a.w' above all; 'ckpt compact' leaves it out
"* ]]
}

@test "ls --bytes and --long say more" {
	ckpt ls --bytes ddp_model.pt module.block.conv; want 0
	[[ ${lines[0]} = *" 2,304" ]]
	ckpt ls -l ddp_model.pt module.block.conv; want 0
	[[ ${lines[0]} = *"offset 0  stride [72, 9, 3, 1]  storage 6 of 2304 bytes"* ]]
}

@test "ls --records lists the records of an archive" {
	ckpt ls --records --bytes ddp_model.pt; want 0
	python3 - >wanted <<-'END'
	import zipfile
	marks = ".format_version", ".storage_alignment", "byteorder", "version", ".data/serialization_id"
	total, rows = 0, zipfile.ZipFile("ddp_model.pt").infolist()
	names = [z.filename[len("ddp_model/"):] for z in rows]
	for name, z in zip(names, rows):
	    kind = "pickle" if name == "data.pkl" else "mark" if name in marks else "storage"
	    print("%-*s  %-8s  %6s" % (max(map(len, names)), name, kind, "{:,}".format(z.file_size)))
	print("%d records, %s" % (len(rows), "{:,}".format(sum(z.file_size for z in rows))))
	END
	diff wanted - <<<"$output"
	ckpt ls --records -q ddp_model.pt 'data/1*'; want 0
	[ "${#lines[@]}" = 5 ]
	ckpt ls --records ddp_model.pt nothing; want 1 "ckpt: ddp_model.pt: no record matches"
	ckpt ls --records -l ddp_model.pt
	[ "$status" = 64 ]
	"$CKPT" convert -q --to torch-legacy ddp_model.pt legacy.pt
	ckpt ls --records legacy.pt; want 2 "ckpt: legacy.pt: is no archive and has no records"
}

@test "records that are compressed or not torch's are shown, also as JSON" {
	python3 - <<-'END'
	import zipfile
	old, new = zipfile.ZipFile("ddp_model.pt"), zipfile.ZipFile("packed.pt", "w")
	for z in old.infolist():
	    new.writestr(z.filename, old.read(z), zipfile.ZIP_DEFLATED if z.filename.endswith("/data/0") else None)
	new.writestr("ddp_model/no\x1bte.txt", "hello")
	END
	ckpt ls --records --bytes packed.pt; want 0
	[[ $output = *"data/0 "*" storage      864  compressed to "* ]]
	[[ $output = *'no\x1bte.txt '*" other          5"* ]]
	"$CKPT" ls --records --json packed.pt | python3 -c 'import json, sys, zipfile
doc = json.load(sys.stdin)
there = zipfile.ZipFile("packed.pt").infolist()
assert [r["name"] for r in doc["records"]] == [z.filename[len("ddp_model/"):] for z in there], doc
assert [r["nbytes"] for r in doc["records"]] == [z.file_size for z in there], doc
assert [r["stored"] for r in doc["records"]] == [z.compress_size for z in there], doc
assert doc["count"] == len(there) and doc["nbytes"] == sum(z.file_size for z in there), doc
assert [r["kind"] for r in doc["records"]].count("storage") == 14, doc'
	"$CKPT" info --json packed.pt | python3 -c 'import json, sys, zipfile
kinds = json.load(sys.stdin)["record_kinds"]
data = [z.file_size for z in zipfile.ZipFile("packed.pt").infolist() if "l/data/" in z.filename]
assert kinds["storage"] == {"records": len(data), "nbytes": sum(data)}, kinds
assert kinds["other"] == {"records": 1, "nbytes": 5} and kinds["pickle"]["records"] == 1, kinds'
}

@test "JSON is JSON, on standard output and in a file" {
	for command in ls info; do
		for file in ddp_model.pt ddp_trainer.pt; do
			"$CKPT" $command --json $file | python3 -m json.tool >/dev/null
		done
		ckpt $command --json=$command.json ddp_model.pt; want 0
		[ "$output" = "" ]
		"$CKPT" $command --json ddp_model.pt | cmp - $command.json
	done
	python3 - <<-'END'
	import json, subprocess, os
	doc = json.loads(subprocess.check_output([os.environ["CKPT"], "ls", "--json", "ddp_trainer.pt"]))
	assert doc["ckpt_json"] == 1 and doc["command"] == "ls" and doc["count"] == 38 == len(doc["tensors"])
	assert doc["tensors"][0]["name"] == "model.module.stem.0.weight"
	assert doc["tensors"][0]["shape"] == [8, 3, 3, 3] and doc["tensors"][0]["dtype"] == "float32"
	END
	ckpt ls --json=none/out.json ddp_model.pt
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: none/out.json: cannot write JSON to it: No such file or directory" ]]
}

@test "JSON never goes into a file that is there" {
	for command in ls info; do
		ckpt $command --json=ddp_model.pt ddp_model.pt
		want 2 "ckpt: ddp_model.pt: cannot write JSON to it: it exists already"
		ckpt $command --json=. ddp_model.pt
		want 2 "ckpt: .: cannot write JSON to it: Is a directory"
		"$CKPT" $command --json=/dev/stdout ddp_model.pt | python3 -m json.tool >/dev/null
	done
	input_is_untouched
	ckpt ls ddp_model.pt --json out.json
	want 1 "ckpt: ddp_model.pt: no tensor matches
hint: --json=out.json writes to that file"
	ckpt ls ddp_model.pt --json out.json nothing
	want 1 "ckpt: ddp_model.pt: no tensor matches
hint: --json=out.json writes to that file"
	for command in ls info; do
		ckpt $command --json out.json
		want 2 "ckpt: out.json: cannot open: No such file or directory
hint: --json=out.json writes to that file"
	done
	[ ! -e out.json ]
}

@test "JSON goes where the shell has opened a file" {
	"$CKPT" ls --json ddp_model.pt >wanted
	"$CKPT" ls --json=/dev/stdout ddp_model.pt >a
	"$CKPT" ls --json=/dev/fd/3 ddp_model.pt 3>b
	echo before >c
	"$CKPT" ls --json=/dev/stdout ddp_model.pt >>c
	cmp a wanted && cmp b wanted && tail -n +2 c | cmp - wanted
	[ "$(head -n 1 c)" = before ]
	ckpt ls --json=/dev/fd/77 ddp_model.pt
	want 2 "ckpt: /dev/fd/77: cannot write JSON to it: Bad file descriptor"
}

@test "JSON that cannot be written whole is removed" {
	(ulimit -f 1; trap '' XFSZ; "$CKPT" ls --json=out.json ddp_trainer.pt 2>err) && false
	[[ $(<err) = "ckpt: cannot write the JSON file: File too large" ]]
	[ ! -e out.json ]
}

@test "JSON has no control characters, and nothing that reorders text" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	open("odd.pt", "wb").write(torch_file(state_dict(**{"a\x9b31mX\u202eb\x7f": tensor()})))
	END
	"$CKPT" ls --json odd.pt >out
	run -1 grep -q '[^ -~]' out
	python3 -c 'import json; assert json.load(open("out"))["tensors"][0]["name"] == "a\x9b31mX\u202eb\x7f"'
	"$CKPT" cat --json odd.pt $'a\302\23331mX\342\200\256b\177' >out
	run -1 grep -q '[^ -~]' out
	python3 -c 'import json; assert json.load(open("out"))["name"] == "a\x9b31mX\u202eb\x7f"'
	mv odd.pt $'odd\177.pt'
	"$CKPT" scan --json $'odd\177.pt' >out
	run -1 grep -q '[^ -~]' out
	python3 -c 'import json; assert json.load(open("out"))["files"][0]["path"] == "odd\x7f.pt"'
}

@test "sums of sizes that no machine has do not wrap, and every device is counted" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	meta = (glob("torch._utils", "_rebuild_meta_tensor_no_storage") + b"(" + glob("torch", "float32") +
	        numbers((2**62, 2)) + numbers((2, 1)) + b"\x89tR")
	open("meta.pt", "wb").write(torch_file(state_dict(a=meta, b=meta, c=meta)))
	many = {"t%d" % i: glob("torch._utils", "_rebuild_device_tensor_from_numpy") + b"(" +
	        glob("numpy", "array") + b")R" + b"(NK\x04\x85tb" + glob("torch", "float32") + text("x:%d" % i) +
	        b"\x89tR" for i in range(70)}
	many.update({"y%d" % i: many["t0"].replace(text("x:0"), text("y" * 300 + "z")) for i in range(2)})
	open("many.pt", "wb").write(torch_file(state_dict(**many)))
	END
	ckpt info meta.pt; want 0
	[[ $output = *" 18,446,744,073,709,551,615 elements"* ]]
	"$CKPT" info --json many.pt | python3 -c 'import json, sys
devices = json.load(sys.stdin)["devices"]
assert len(devices) == 71, devices
assert all(devices["x:%d" % i]["tensors"] == 1 for i in range(70)), devices
assert devices["y" * 300 + "z"]["tensors"] == 2, devices'
	ckpt info many.pt; want 0
	[[ $output = *"devices     x:0 (1, "*" x:15 (1, "*"), and 55 more"* ]]
}

@test "names that are no UTF-8 come with their bytes in hex" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	import files
	body = files.glob("collections", "OrderedDict") + b")R(" + files.text(b"a\xff\xc3b") + files.tensor() + b"u"
	open("odd.pt", "wb").write(files.torch_file(files.pickled(body)))
	END
	"$CKPT" ls --json odd.pt | python3 -c 'import json, sys
t = json.load(sys.stdin)["tensors"][0]
assert t["name"] == "a\ufffd\ufffdb" and t["name_hex"] == "61ffc362", t'
	ckpt ls -q odd.pt; want 0
	[[ $output = 'a\xff\xc3b '* ]]
}

@test "info says on one screen what it is" {
	ckpt info ddp_trainer.pt; want 0
	[ "${#lines[@]}" -le 24 ]
	[[ $output = *"torch zip"*"torch 2.7 or later"* ]]
	[[ $output = *"23,009 bytes"*"44 records in 'ddp_trainer/'"* ]]
	[[ $output = *"module. on 14 of 14 keys"* ]]
	[[ $output = *"epoch"*"3"* ]]
}

@test "info counts parameters, and says by what it tells them" {
	ckpt info ddp_trainer.pt; want 0
	[[ $output = *"
parameters  "*" ('model'), buffers 34, optimizer 1,836; told by the optimizer's count and shapes
"* ]]
	[[ $output = *" of the optimizer; 'ckpt select --drop optimizer' leaves it out
"* ]]
	ckpt info ddp_model.pt; want 0
	[[ $output = *"
parameters  914, buffers 34; told by names
"*"
root        OrderedDict of 14
  _metadata "*"
  and 14 tensors ('ckpt ls' lists them)" ]]
	ckpt select -i --drop optimizer ddp_trainer.pt; want 0
	ckpt info --json ddp_trainer.pt; want 0
	python3 - "$output" <<-'END'
	import json, sys
	d = json.loads(sys.argv[1])
	assert list(d)[-2:] == ["parts", "quantized"] and d["quantized"] is None and d["parts"]["told_by"] == ["names"], d["parts"]
	assert d["parts"]["optimizer"] == {"tensors": 0, "elements": 0, "nbytes": 0}
	kinds = {one["kind"]: one["nbytes"] for one in d["parts"]["extra"]}
	assert set(kinds) == {"dead", "headers"} and kinds["dead"] == d["file"]["dead_nbytes"], kinds
	END
}

@test "dis shows the pickle" {
	ckpt dis ddp_model.pt; want 0
	[ "${lines[0]}" = "       0: PROTO 2" ]
	[ "${lines[1]}" = "       2: GLOBAL 'collections OrderedDict'" ]
	[[ ${lines[-1]} = *": STOP" ]]
	python3 -c 'import zipfile; open("bare", "wb").write(zipfile.ZipFile("ddp_model.pt").read("ddp_model/data.pkl"))'
	"$CKPT" dis bare >b; "$CKPT" dis ddp_model.pt ddp_model/data.pkl >a
	cmp a b
	ckpt dis ddp_model.pt nope
	[ "$status" = 2 ]
	[[ $stderr = "ckpt: ddp_model.pt: there is no record 'nope'"* ]]
}

@test "an input that is not there, or no file, is named" {
	ckpt ls none.pt; want 2 "ckpt: none.pt: cannot open: No such file or directory"
	ckpt info none.pt; want 2 "ckpt: none.pt: cannot open: No such file or directory"
	ckpt dis none.pt; want 2 "ckpt: none.pt: cannot open: No such file or directory"
	ckpt strip-module none.pt out.pt; want 2 "ckpt: none.pt: cannot open: No such file or directory"
	mkdir -p empty; ckpt ls empty
	want 2 "ckpt: empty: is a directory, but no sharded checkpoint: it has no .metadata"; rmdir empty
	ckpt ls ddp_model.pt/x; want 2 "ckpt: ddp_model.pt/x: cannot open: Not a directory"
	want_files
}

@test "names with blanks, dashes and equal signs are paths" {
	cp ddp_model.pt 'epoch=24-step=1 8.ckpt'
	cp ddp_model.pt ./-q.pt
	ckpt ls -q 'epoch=24-step=1 8.ckpt'; want 0
	ckpt ls -q -- -q.pt; want 0
	ckpt strip-module 'epoch=24-step=1 8.ckpt' 'o u t=.pt'; want 0
	[ -f 'o u t=.pt' ]
}

@test "no colours without a terminal, and none with NO_COLOR" {
	"$CKPT" ls ddp_model.pt | grep -q $'\x1b' && return 1
	command -v script >/dev/null || skip "script is not installed, so there is no terminal"
	script -qec true /dev/null </dev/null >/dev/null 2>&1 || skip "there is no pseudo-terminal here"
	NO_COLOR=1 script -qec "'$CKPT' ls ddp_model.pt; '$CKPT' info ddp_model.pt" /dev/null </dev/null >typed
	grep -q 'module.head.weight' typed
	grep -q $'\x1b' typed && return 1
	true
}
