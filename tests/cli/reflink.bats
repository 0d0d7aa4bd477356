#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# --reflink: needs a file system that can share blocks, which is made in a file where the machine allows it.
load common.bash

teardown() {
	cd /
	! mountpoint -q "$work/xfs" 2>/dev/null || umount "$work/xfs"
	rm -rf "$work"
}

mount_xfs() {
	type mkfs.xfs >/dev/null 2>&1 || skip "xfsprogs is not installed"
	truncate -s 400M image
	mkfs.xfs -q image 2>/dev/null || skip "no XFS can be made"
	mkdir xfs
	mount -o loop image xfs 2>/dev/null || skip "nothing can be mounted here"
	cp ddp_trainer.pt xfs
}

@test "a clone shares the input's blocks and holds the edit" {
	mount_xfs
	ckpt strip-module --reflink always xfs/ddp_trainer.pt xfs/out.pt; want 0
	[[ $output = "14 keys renamed in 'model', blocks shared, "* ]]
	cmp xfs/ddp_trainer.pt ddp_trainer.pt
	ckpt strip-module ddp_trainer.pt plain.pt; want 0
	cmp <("$CKPT" ls --json xfs/out.pt | sed 's/xfs.out.pt//') <("$CKPT" ls --json plain.pt | sed 's/plain.pt//')
	python3 -c 'import sys, zipfile; sys.exit(zipfile.ZipFile("xfs/out.pt").testzip() is not None)'
	if type filefrag >/dev/null 2>&1; then filefrag -v xfs/out.pt | grep -q shared; fi
	ckpt strip-module --reflink always xfs/ddp_trainer.pt xfs/out.pt
	want 2 "ckpt: xfs/out.pt: the output exists already
hint: -f replaces it"
}

@test "without reflinks auto copies, and always says why not" {
	mkdir copied
	ckpt strip-module ddp_trainer.pt copied/out.pt; want 0
	ckpt strip-module --reflink auto ddp_trainer.pt out.pt; want 0
	if [[ $output != *"blocks shared"* ]]; then
		cmp out.pt copied/out.pt
		ckpt strip-module -f --reflink always ddp_trainer.pt out.pt
		want 2 "ckpt: ddp_trainer.pt: its blocks cannot be shared: the file system has no reflinks, or OUT is on another"
	fi
	ckpt cast bf16 --reflink always ddp_trainer.pt cast.pt
	want 2 "ckpt: ddp_trainer.pt: its blocks cannot be shared: bytes of tensors were changed"
	ckpt strip-module --reflink sometimes ddp_trainer.pt cast.pt
	want 64 "ckpt: --reflink sometimes: wanted 'never', 'auto' or 'always'"
	want_files copied out.pt
}
