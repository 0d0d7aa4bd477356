# SPDX-License-Identifier: Apache-2.0
# IN may be a file inside of a zip archive: ARCHIVE::NAME.
load common

pack() { python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED if sys.argv[2] == "deflated" else zipfile.ZIP_STORED) as z:
    [z.write(name) for name in sys.argv[3:]]' "$@"; }

@test "every command that reads takes one" {
	echo '{}' >data
	pack stored.zip stored data ddp_model.pt
	pack deflated.zip deflated data ddp_model.pt
	mkdir out
	for zip in stored.zip deflated.zip; do
		for command in "ls -q" "ls -l" "info" "dis"; do
			ckpt $command ddp_model.pt; want 0
			plain=${output/ddp_model.pt/X}
			ckpt $command $zip::ddp_model.pt; want 0
			[ "${output/$zip::ddp_model.pt/X}" = "$plain" ]
		done
		ckpt strip-module -q -f $zip::ddp_model.pt out/ddp_model.pt; want 0
		cmp out/ddp_model.pt "$ddp/expected/ddp_model.pt"
		ckpt convert -q -f $zip::ddp_model.pt out/ddp_model.pt; want 0
		ckpt extract $zip::ddp_model.pt "" -q -f out/whole.pt
		ckpt verify $zip::ddp_model.pt; want 0
	done
}

@test "what would write into the archive is refused" {
	pack a.zip stored ddp_model.pt
	cp a.zip before.zip
	ckpt strip-module -i a.zip::ddp_model.pt
	want 2 "ckpt: a.zip::ddp_model.pt: is inside of an archive, which is left as it is: name an output"
	ckpt strip-module --reflink always a.zip::ddp_model.pt out.pt
	[ "$status" = 2 ]
	[[ $stderr = *"what is inside of an archive shares no blocks" ]]
	ckpt broadcast --transport self a.zip::ddp_model.pt copy.pt
	want 3 "ckpt: broadcast: a.zip::ddp_model.pt: is not a file: a file inside an archive cannot be broadcast on its own"
	cmp a.zip before.zip
	want_files a.zip before.zip
}

@test "ls and info of the archive list its files" {
	echo '{}' >data
	pack a.zip stored data ddp_model.pt
	ckpt ls a.zip; want 0
	[ "${lines[0]}" = "data               3" ]
	[ "${lines[1]}" = "ddp_model.pt    8.9K  torch zip, 14 tensors" ]
	[[ ${lines[2]} = "2 files in a zip archive, 8.9K; ARCHIVE::NAME is one of them" ]]
	ckpt info a.zip; want 0
	[ "${lines[1]}" = "format      zip archive with 1 checkpoint inside" ]
	ckpt ls --json a.zip; want 0
	python3 -c 'import json, sys; d = json.loads(sys.argv[1]); assert d["count"] == 2 and d["files"][1]["tensors"] == 14 and \
d["files"][0]["kind"] is None and d["files"][1]["name"] == "ddp_model.pt", d' "$output"
	ckpt convert a.zip out.pt
	want 2 "ckpt: a.zip: is a zip archive with model files inside, not one itself: name one of them as ARCHIVE::ddp_model.pt"
}

@test "a package with nothing but TorchScript in it says that this is not listed" {
	PYTHONPATH=$CKPT_SOURCE_DIR/tests/bad python3 -B - <<-'END'
	from files import *
	script = b"(" + text("reduce_package") + number(1) + glob("torch.jit._script", "unpackage_script_module") + text("0") + b"\x85tQ"
	open("net.package", "wb").write(archive([(".data/ts_code/0/data.pkl", b"\x80\x02N."), ("m/model.pkl", b"\x80\x03" + script + b"."),
	                                         (".data/extern_modules", b"torch\n"), (".data/version", b"6\n")]))
	END
	ckpt ls net.package; want 0 "ckpt: note: holds 1 TorchScript module, whose tensors are not listed"
	[ "$output" = "0 tensors, 0 elements, 0 in 0 storages" ]
	ckpt ls -q net.package; want 0
}

@test "of several files in an archive the one with the weights is named" {
	ckpt convert --to torch-legacy ddp_model.pt policy.pth; want 0
	cp ddp_trainer.pt policy.optimizer.pth
	head -c 300 ddp_model.pt >tensors.pth
	python3 -c 'import zipfile
with zipfile.ZipFile("best.zip", "w") as z:
    for name in ("data", "tensors.pth", "policy.pth", "policy.optimizer.pth"):
        z.writestr("data", "{}") if name == "data" else z.write(name)'
	ckpt stat best.zip
	want 2 "ckpt: best.zip: is a zip archive with model files inside, not one itself: name one of them as ARCHIVE::policy.pth"
}
