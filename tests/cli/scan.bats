#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# What scan says of hostile files is tested in tests/scan, of what torch writes in tests/interop.
load common.bash

# pickle FILE TEXT: a pickle, written as printf takes it
pickle() {
	printf "$2" >"$1"
}

evil='\x80\x02cposix\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.'
not_safe='ckpt: note: needs-objects: exit code 0 does not mean safe, as a load runs code that the file names; --strict exits with 1'
meaning='a load imports what is listed here and runs its code with data of the file: as safe as that code is with hostile data'
own='\x80\x02cmine\nThing\n)\x81}X\x01\x00\x00\x00xK\x01sb.'

@test "a text with an r in the wrong place is one" {
	printf 'Nr,Name\n1,x\n' >t.csv
	printf 'Copyright (c) %099dright to use, copy, modify\n' 0 >LICENSE
	printf 'Karl went home\n' >name.md
	ckpt scan --strict t.csv LICENSE name.md
	[[ $status = 0 && $output != *unreadable* ]]
	cp t.csv t.pt
	ckpt scan t.pt
	[ "$status" = 2 ]
}

@test "what torch saved is plain" {
	ckpt scan ddp_model.pt ddp_trainer.pt; want 0
	[ "${lines[0]}" = "ddp_model.pt: plain: torch zip; weights_only of torch 1.13, 2.6, 2.14 takes it" ]
	[[ ${lines[1]} = "ddp_trainer.pt: plain: torch zip; weights_only of torch 2.6, 2.14 takes it" ]]
	[ "${lines[2]}" = "2 files, 32K: 2 plain" ]
	ckpt scan -q ddp_model.pt ddp_trainer.pt; want 0
	[ -z "$output" ]
	input_is_untouched
}

@test "a call that runs code is dangerous, and said with its place and its arguments" {
	pickle bad.pkl "$evil"
	ckpt scan bad.pkl; want 1
	[ "${lines[0]}" = "bad.pkl: dangerous: pickle" ]
	[ "${lines[1]}" = "  dangerous: +0x20: calls posix.system('true')" ]
	[ ${#lines[@]} = 2 ]
	ckpt scan -q ddp_model.pt bad.pkl; want 1
	[ "${lines[0]}" = "bad.pkl: dangerous: pickle" ]
}

@test "arguments in lists, tuples and dicts are shown, escaped and shortened" {
	python3 - <<-END
	import os, pickle, subprocess
	class Call:
	    def __init__(self, *arguments):
	        self.arguments = arguments
	    def __reduce__(self):
	        return subprocess.call, self.arguments
	deep = []
	deep.append(deep)
	pickle.dump([Call(["rm", "-rf", "/\\x1b[31m" * 20], {"shell": True}, (1,), [], ()), Call([[[1]]], list(range(9)), {3: [4, {5: 6}]}),
	             Call(deep), Call(["x" * 50] * 9), Call({"a" * 99: "b" * 99}), Call(*[["y" * 20] * 2] * 9)], open("bad.pkl", "wb"), 4)
	END
	ckpt scan bad.pkl; want 1
	local calls
	calls=$(grep -o 'calls .*' <<<"$output")
	[ "$calls" = "calls subprocess.call(['rm', '-rf', '/\x1b[31m/\x1b[31m/\x1b[31m/\x1b[31m/\x1b[31...'], {'shell': True}, (1,), [], ())
calls subprocess.call([[[...]]], [0, 1, 2, 3, 4, 5, ...], {3: [4, {...}]})
calls subprocess.call([[[...]]])
calls subprocess.call(['$(printf 'x%.0s' {1..44})...', ...])
calls subprocess.call({'$(printf 'a%.0s' {1..44})...': ...})
calls subprocess.call(['yyyyyyyyyyyyyyyyyyyy', 'yyyyyyyyyyyyyyyyyyyy'], ['yyyyyyyyyyyyyyyyyyyy', 'yyyyyyyyyyyyyyyyyyyy'], ['yyyyyyyyyyyyyyyyyyyy', 'yyyyyyyyyyyyyyyyyyyy'], ...)" ] || { echo "$calls" >&2; return 1; }
}

@test "functions that an object of a package keeps are named" {
	pickle state.pkl '\x80\x02cmine\nThing\n)\x81}X\x01\x00\x00\x00x](K\x01cother\nrun_it\nesb.'
	ckpt scan state.pkl; want 0 "$not_safe"
	[[ $output = *"+0x2b: an object of mine.Thing keeps the function other.run_it, which its class may call"* ]]
	pickle items.pkl '\x80\x02cmine\nThing\n)\x81(K\x01cother\nrun_it\ne.'
	ckpt scan items.pkl; want 0 "$not_safe"
	[[ $output = *"an object of mine.Thing keeps the function other.run_it, which its class may call"* ]]
	pickle class.pkl '\x80\x02cmine\nThing\n)\x81}X\x01\x00\x00\x00xcother\nRunner\nsb.'
	ckpt scan class.pkl; want 0 "$not_safe"
	[[ $output != *"keeps the function"* ]]
}

@test "where in the checkpoint the object is that is made by it" {
	python3 - <<-END
	import collections, os, pickle, sys, types
	class Evil:
	    def __reduce__(self):
	        return os.system, ("true",)
	class Own:
	    pass
	module = types.ModuleType("mine")
	module.Own, Own.__module__ = Own, "mine"
	sys.modules["mine"] = module
	own, shared, state = Own(), Evil(), Own()
	own.hook = Evil()
	root = {"model": collections.OrderedDict(hook=Evil()), "list": [1, (shared,), {3: Evil()}], "again": shared, "own": own,
	        "a\n.b": Evil()}
	with open("bad.pkl", "wb") as file:
	    pickle.dump(root, file, 2)
	END
	ckpt scan bad.pkl; want 1
	[[ ${lines[1]} = "  dangerous: +0x"*": model.hook: calls posix.system('true')" ]]
	[[ ${lines[2]} = *": list.1.0: calls "* ]]
	[[ ${lines[3]} = *": list.2.3: calls "* ]]
	[[ ${lines[4]} = *": own.hook: calls "* ]]
	[[ ${lines[5]} = *': a\n.b: calls '* ]]
	ckpt scan --json bad.pkl; want 1
	[[ $output = *'"path":"list.2.3"'* ]]
}

@test "a name of many parts is cut in the middle, but not in JSON" {
	python3 - <<-END
	import os, pickle
	class Call:
	    def __reduce__(self):
	        return os.system, ("true",)
	made = Call()
	for n in range(40):
	    made = {"layer%d" % n: made}
	for name, top in (("deep", {"model": made}), ("wide", {"é" * 99 + "a": Call()}), ("cut", {"é" * 130: Call()})):
	    with open(name + ".pkl", "wb") as out:
	        pickle.dump(top, out, 2)
	END
	ckpt scan deep.pkl; want 1
	[[ ${lines[1]} = *": model.layer39.layer38."*"...r"*".layer1.layer0: calls posix.system('true')" ]] && [ ${#lines[1]} -lt 270 ]
	ckpt scan cut.pkl; want 1
	[[ ${lines[1]} = *": $(printf 'é%.0s' {1..49})...$(printf 'é%.0s' {1..49}): calls posix.system('true')" ]]
	ckpt scan wide.pkl; want 1
	[[ ${lines[1]} = *": $(printf 'é%.0s' {1..99})a: calls "* ]]
	ckpt scan --json deep.pkl; want 1
	[[ $output = *"layer39.layer38.layer37.layer36.layer35.layer34.layer33.layer32.layer31.layer30.layer29.layer28.layer27.layer26.layer25.layer24.layer23.layer22.layer21.layer20.layer19"* ]]
}

@test "it ran even if the pickle breaks off behind it" {
	pickle bad.pkl "${evil%.}\xff"
	ckpt scan bad.pkl; want 1
	[ "${lines[0]}" = "bad.pkl: dangerous: pickle" ]
	[ "${lines[2]}" = "  unreadable: +0x23: unknown opcode 0xff" ]
}

@test "classes that are not known are listed; --strict wants none" {
	pickle own.pkl "$own"
	ckpt scan own.pkl; want 0 "$not_safe"
	[ "${lines[0]}" = "own.pkl: needs-objects: pickle" ]
	[ "${lines[1]}" = "  needs-objects: $meaning" ]
	[ "${lines[2]}" = "  imports: +0x2: mine.Thing, which is called" ]
	[ ${#lines[@]} = 3 ] # scripts read stdout: the note is not there, and in no document
	for quiet in -q --json --sarif; do
		ckpt scan $quiet own.pkl; want 0
	done
	pickle bad.pkl "$evil"
	ckpt scan own.pkl bad.pkl; want 1
	ckpt scan --strict own.pkl; want 1
	ckpt scan --strict ddp_model.pt; want 0
}

@test "what needs-objects means is said once in each form, and of what is worse not at all" {
	pickle own.pkl "$own"
	ckpt scan own.pkl; want 0 "$not_safe"
	for form in --json --sarif; do
		ckpt scan $form own.pkl; want 0
		[ "$(grep -c "\"text\":\"$meaning\"" <<<"$output")" = 1 ]
	done
	pickle worse.pkl "${own%.}0${evil#'\x80\x02'}"
	ckpt scan worse.pkl; want 1
	[[ $output = *"imports: +0x2: mine.Thing"* && $output != *"$meaning"* ]]
}

@test "each name that needs objects is listed, however many others there are" {
	python3 -B - <<-END
	import zipfile
	plain = b"\x80\x02" + b"".join(b"ctorch\n%s\n0" % name for name in (b"float32", b"int64", b"int8", b"bool", b"int32")) + b"N."
	with zipfile.ZipFile("many.zip", "w") as archive:
	    for number in range(250):
	        archive.writestr("p%03d.pkl" % number, plain)
	    archive.writestr("q.pkl", b"\x80\x02cmine\nThing\n)\x81.")
	    archive.writestr("r.pkl", b"\x80\x02cmine\nThing\n)\x81.")
	END
	ckpt scan --json many.zip; want 0
	[ "$(grep -c '"name":"mine.Thing"' <<<"$output")" = 1 ]
	[[ $output = *'"verdict":"needs-objects"'* ]]
	ckpt scan -v many.zip; want 0 "$not_safe"
	[[ $output = *"  imports: q.pkl+0x2: mine.Thing, which is called"*"more that are not listed"* ]]
}

@test "what cannot be told is not plain" {
	head -c 5000 ddp_model.pt >cut.pt
	printf '\x1f\x8b\x08' >model.pkl.gz
	: >empty.pt
	for file in cut.pt model.pkl.gz empty.pt; do
		ckpt scan "$file"; want 2
		[[ ${lines[0]} = "$file: unreadable: "* ]]
	done
	ckpt scan nothing.pt; want 2 "ckpt: nothing.pt: cannot open: No such file or directory"
	pickle bad.pkl "$evil"
	ckpt scan cut.pt bad.pkl; want 1 # the worst counts
}

@test "two readers, two files" {
	pickle good.pkl '\x80\x02}.'
	cat good.pkl ddp_model.pt >both.pt
	ckpt scan both.pt; want 1
	[[ ${lines[0]} = "both.pt: inconsistent: "* ]]
	(printf 'PK?!'; cat ddp_model.pt) >behind.pt
	ckpt scan behind.pt; want 1
	[ "${lines[0]}" = "behind.pt: inconsistent: zip archive behind other bytes" ]
	printf 'more' >>ddp_model.pt
	ckpt scan ddp_model.pt; want 1
	[[ $output = *"inconsistent: +0x22e1: 4 bytes follow the archive"* ]]
}

@test "nothing that a terminal would obey" {
	python3 - <<-END
	import zipfile
	with zipfile.ZipFile("model.pt", "w") as archive:
	    archive.writestr("a\x1b[31mb/data.pkl", b"\x80\x02}.")
	    archive.writestr("a\x1b[31mb/version", "3")
	    archive.writestr("other/data/0", b"1234")
	END
	ckpt scan -v model.pt; want 1
	[[ $output = *"other/data/0: it lies outside of the folder 'a\\x1b[31mb/'"* ]]
	[[ $output != *$'\x1b'* ]]
}

@test "what breaks off in the middle, weights_only does not take" {
	cp ddp_model.pt bad.pt
	python3 - <<-END
	import zipfile
	with zipfile.ZipFile("ddp_model.pt") as archive, zipfile.ZipFile("bad.pt", "w") as out:
	    for info in archive.infolist():
	        data = archive.read(info)
	        out.writestr(info.filename, data[:-20] + b"\xff" + data[-20:] if info.filename.endswith("data.pkl") else data)
	END
	ckpt scan bad.pt; want 2
	[ "${lines[0]}" = "bad.pt: unreadable: torch zip; weights_only refuses it" ]
}

@test "what weights_only says is not foretold of what is not looked into, and an empty pickle is none" {
	python3 - <<-END
	import zipfile
	for name, pickle in (("empty", b""), ("packed", b"\x80\x02X" + (80 << 20).to_bytes(4, "little") + b"a" * (80 << 20) + b".")):
	    with zipfile.ZipFile(name + ".pt", "w", zipfile.ZIP_DEFLATED) as out:
	        out.writestr("a/data.pkl", pickle)
	        out.writestr("a/version", b"3\n")
	END
	ckpt scan empty.pt; want 2
	[ "${lines[0]}" = "empty.pt: unreadable: torch zip; weights_only refuses it" ]
	ckpt scan packed.pt; want 2
	[ "${lines[0]}" = "packed.pt: unreadable: torch zip; what weights_only says is not known" ]
	ckpt scan --json packed.pt; want 2
	[[ $output = *'"weights_only":{"1.13":null,"2.6":null,"2.14":null}'*'"refusals":[]'* ]]
}

@test "folders: links to files are followed, what is no checkpoint is passed over" {
	mkdir -p in/below
	cp ddp_model.pt in/a.pt
	pickle in/below/b.pkl "$evil"
	echo '# cos, system' >in/README.md
	echo '{}' >in/config.json
	ln -s ../ddp_trainer.pt in/link.pt
	ln -s .. in/below/up
	ckpt scan in; want 1
	[ "${lines[0]}" = "in/a.pt: plain: torch zip; weights_only of torch 1.13, 2.6, 2.14 takes it" ]
	[ "${lines[1]}" = "in/below/b.pkl: dangerous: pickle" ]
	[ "${lines[3]}" = "in/link.pt: plain: torch zip; weights_only of torch 2.6, 2.14 takes it" ]
	[[ ${lines[4]} = "3 files, "*": 1 dangerous, 2 plain; 2 that are no checkpoints passed over" ]]
	mkdir none
	ckpt scan none; want 2 "ckpt: none: holds no files"
}

@test "folders: a snapshot of a hub, and what cannot be followed" {
	mkdir -p hub/blobs hub/snapshots/main other
	pickle hub/blobs/5d2c "$evil"
	ln -s ../../blobs/5d2c hub/snapshots/main/pytorch_model.bin
	ckpt scan hub/snapshots/main; want 1
	[ "${lines[0]}" = "hub/snapshots/main/pytorch_model.bin: dangerous: pickle" ]
	ckpt scan hub; want 1
	[[ ${lines[-1]} = "2 files, "*": 2 dangerous" ]]
	rm hub/blobs/5d2c
	cp ddp_model.pt hub/blobs/
	ckpt scan hub; want 2 # it cannot be told what was meant
	[ "${lines[1]}" = "hub/snapshots/main/pytorch_model.bin: unreadable: unknown" ]
	rm hub/snapshots/main/pytorch_model.bin
	ckpt scan hub; want 0
	ln -s snapshots/main hub/latest # one more name of what is there
	ckpt scan hub; want 0
	pickle other/x.pkl "$evil"
	ln -s ../other hub/elsewhere
	ckpt scan hub; want 2
	[[ $output = *"hub/elsewhere: unreadable: "* ]]
	rm hub/elsewhere
	mkfifo hub/pipe
	ckpt scan hub; want 2
	[[ $output = *"hub/pipe: unreadable: "* ]]
}

@test "text is nothing to run, a pickle in text is" {
	echo 'notes on the model' >notes.txt
	ckpt scan notes.txt; want 0
	[ "${lines[0]}" = "notes.txt: plain: text" ]
	printf "cos\nsystem\n(S'true'\ntR." >notes.txt
	ckpt scan notes.txt; want 1
	[[ ${lines[1]} = "  dangerous: "*"calls os.system('true')" ]]
}

@test "a descriptor is no name, however it is spelled" {
	pickle t.txt 'N.'
	ckpt scan --strict t.txt; want 0
	for name in - /dev/stdin /dev/fd/0 /proc/self/fd/0 /proc/thread-self/fd/0 //proc/self/fd/0 /proc/./self//fd/0 /dev/../dev/fd/0; do
		run bash -c 'printf N. | "$0" scan "$1"' "$CKPT" "$name"
		[ "$status" = 2 ] || { echo "$name: $status $output" >&2; return 1; }
		run bash -c 'exec <t.txt; "$0" scan "$1"' "$CKPT" "$name"
		[ "$status" = 2 ] || { echo "$name: $status $output" >&2; return 1; }
	done
	run bash -c 'exec 7<t.txt; "$0" scan /proc/$$/fd/7' "$CKPT"; [ "$status" = 2 ]
	run bash -c 'exec 7<t.txt; cd /proc/self/fd; exec "$0" scan 7' "$CKPT"; [ "$status" = 2 ]
	mkdir fd; cp t.txt fd/0
	ckpt scan --strict fd/0; want 0
}

@test "archives in archives" {
	pickle bad.pkl "$evil"
	python3 -c 'import zipfile; zipfile.ZipFile("inner.zip", "w").write("bad.pkl"); zipfile.ZipFile("outer.zip", "w").write("inner.zip")'
	ckpt scan outer.zip; want 1
	[[ $output = *"dangerous: inner.zip::bad.pkl+0x20: calls posix.system('true')"* ]]
	python3 -c 'import tarfile; archive = tarfile.open("outer.tar", "w"); archive.add("outer.zip"); archive.close()'
	ckpt scan outer.tar; want 1
	[[ $output = *"outer.zip::inner.zip::bad.pkl+0x20: calls posix.system('true')"* ]]
}

@test "one pickle in a pickle, thousands of times" {
	python3 - <<-END
	import struct
	inner = b"\x80\x02](" + b"K\x01" * 500000 + b"e."
	once = b"\x80\x03ctorch.storage\n_load_from_bytes\nq\x00B" + struct.pack("<I", len(inner)) + inner + b"q\x01X\x01\x00\x00\x00aq\x020"
	open("many.pkl", "wb").write(once + b"h\x00h\x01\x85R0" * 20000 + b"N.")
	END
	run --separate-stderr bounded 60 "$CKPT" scan many.pkl
	[[ $status = [012] ]]
}

@test "an edit in place leaves nothing that counts against the file" {
	run "$CKPT" strip-module -i ddp_trainer.pt
	[ "$status" = 0 ]
	ckpt scan ddp_trainer.pt; want 0
	[[ ${lines[0]} = "ddp_trainer.pt: plain: "* ]]
}

@test "JSON" {
	pickle bad.pkl "$evil"
	ckpt scan --json bad.pkl ddp_model.pt; want 1
	python3 - <<-END
	import json
	d = json.loads('''$output''')
	assert d["ckpt_json"] == 1 and d["command"] == "scan" and d["counts"]["dangerous"] == 1 and d["counts"]["plain"] == 1
	bad, good = d["files"]
	assert bad["path"] == "bad.pkl" and bad["verdict"] == "dangerous" and bad["weights_only"] == {"1.13": None, "2.6": None, "2.14": None}
	assert bad["globals"] == [{"name": "posix.system", "kind": "code", "called": True, "where": "", "offset": 2}]
	assert bad["findings"][0]["offset"] == 32 and bad["findings"][0]["kind"] == "call"
	assert good["weights_only"] == {"1.13": True, "2.6": True, "2.14": True} and good["findings"] == [] and good["refusals"] == []
	assert {g["kind"] for g in good["globals"]} == {"data"}
	END
	ckpt scan --json=out.json bad.pkl; want 1
	[ -z "$output" ] && [ -s out.json ]
	ckpt scan --json=out.json bad.pkl; want 2 "ckpt: out.json: cannot write JSON to it: it exists already"
}

@test "SARIF" {
	pickle 'b%d.pkl' "$evil"
	mv 'b%d.pkl' 'b%.pkl'
	ckpt scan --sarif=out.sarif 'b%.pkl' ddp_model.pt; want 1
	python3 - <<-END
	import json
	d = json.load(open("out.sarif"))
	run = d["runs"][0]
	assert d["version"] == "2.1.0" and run["tool"]["driver"]["name"] == "ckpt scan"
	[result] = run["results"]
	assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "dangerous" and result["level"] == "error"
	place = result["locations"][0]["physicalLocation"]
	assert place["artifactLocation"]["uri"] == "b%25.pkl" and place["region"]["byteOffset"] == 32
	END
	ckpt scan --json --sarif ddp_model.pt
	[ "$status" = 64 ]
}

@test "strings of a file cannot upset a terminal" {
	pickle bad.pkl '\x80\x02cposix\x1b[31m\nsystem\n)R.'
	ckpt scan -v bad.pkl
	[ "$status" = 1 ]
	[[ $output != *$'\033'* ]]
}

@test "output that cannot be written is an error" {
	[ -e /dev/full ] || skip "no /dev/full"
	run bash -c '"$0" scan ddp_model.pt >/dev/full' "$CKPT"
	[ "$status" = 2 ]
}

@test "wrong usage" {
	ckpt scan
	[ "$status" = 64 ]
	ckpt scan --loose ddp_model.pt
	[ "$status" = 64 ]
}

@test "a name that nothing can be imported by is told, whichever part of it is wrong" {
	for wrong in '' . .a a. a..b 1a a.1b 'a b' a-b; do
		pickle bad.pkl "\\x80\\x02c$wrong\\nThing\\n)\\x81."
		ckpt scan bad.pkl; want 1
		[[ $output = *"inconsistent: +0x2: imports '"*"': the name of the module is none that a program has"* ]]
		pickle bad.pkl "\\x80\\x02cmine\\n$wrong\\n)\\x81."
		ckpt scan bad.pkl; want 1
		[[ $output = *"inconsistent: +0x2: imports '"*"': it is no name that anything in a module can have"* ]]
	done
	for right in 'a\nThing' 'a_1.b.C\nThing' '_.a\n_T1.U'; do
		pickle good.pkl "\\x80\\x02c$right\\n)\\x81."
		ckpt scan good.pkl; want 0 "$not_safe"
		[[ $output != *inconsistent* ]]
	done
}

# The pipe is full before the last of 3,000 files, so that the signal comes in the middle.
@test "a document of a scan that a signal ends says so" {
	mkdir many
	pickle many/0.pkl "$evil"
	for i in {1..3000}; do ln many/0.pkl many/$i.pkl; done
	for form in --json --sarif; do
		FORM=$form python3 -B - <<'PY'
import json, os, signal, subprocess
child = subprocess.Popen([os.environ["CKPT"], "scan", os.environ["FORM"], "many"], stdout=subprocess.PIPE, bufsize=0)
first = child.stdout.read(1)
child.send_signal(signal.SIGTERM)
document = json.loads(first + child.stdout.read())
assert child.wait() == -signal.SIGTERM, child.returncode
if os.environ["FORM"] == "--json":
    assert document["interrupted"] is True and 0 < len(document["files"]) < 3001, document["counts"]
else:
    assert document["runs"][0]["invocations"] == [{"executionSuccessful": False}]
PY
	done
	ckpt scan --json many; want 1
	[[ $output != *interrupted* ]]
}
