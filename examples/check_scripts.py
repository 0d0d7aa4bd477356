# SPDX-License-Identifier: Apache-2.0
"""The scripts for jobs, checked: see check_examples.py --scripts."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

PRINTED = {"broadcast-slurm-prolog.sh": "--print-slurm-prolog", "broadcast-kubernetes.yaml": "--print-k8s"}
TOPICS = ("TIME-OUTS", "WHEN IT FAILS", "AFTERWARDS", "torch.load(", "mmap=True", "ckpt.torch.load(")
folder = ckpt = ""


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write(text, *path, mode=0o644):
    with open(os.path.join(*path), "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(os.path.join(*path), mode)


def run(*words, code=0, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, **more)
    assert done.returncode == code, "%s: exit %d, wanted %d\n%s%s" % (words, done.returncode, code, done.stdout, done.stderr)
    return done.stdout


def printed_texts_are_the_files():
    for name, option in PRINTED.items():
        assert run(ckpt, "broadcast", option) == read(folder, name), "%s prints other than %s" % (option, name)
        run(ckpt, "broadcast", option, "model.pt", code=64)
        for topic in TOPICS:
            assert topic in read(folder, name), "%s does not say: %s" % (name, topic)
    run(ckpt, "broadcast", *PRINTED.values(), code=64)


def shells_and_options():
    options = set(re.findall(r"--[a-z][a-z0-9-]+", run(ckpt, "broadcast", "--help")))
    scripts = glob.glob(os.path.join(folder, "broadcast-*"))
    assert len(scripts) >= 6, scripts
    for path in scripts:
        text = read(path)
        if not path.endswith(".yaml"):
            run("bash" if "bash" in text.split("\n", 1)[0] else "sh", "-n", path)
            if shutil.which("shellcheck"):
                run("shellcheck", "-x", path)
        for words in re.findall(r"\bbroadcast\b,? ((?:[^\n]|\\\n)*(?:\n +--?[^\n]*)*)", text):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", words):
                if "srun" not in words and "mpirun" not in words:
                    assert option in options, "%s: no option %s in 'ckpt broadcast --help'" % (path, option)


def environment(top, **more):
    """ckpt, and doubles of ssh and logger, come first in PATH; no launcher is around."""
    names = ("SLURM", "CKPT_", "OMPI", "PMI", "JOB_COMPLETION", "RANK", "WORLD_SIZE", "MASTER_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    env.update(PATH=os.path.join(top, "bin") + ":" + os.environ["PATH"], **more)
    return env


def prepare(top):
    os.mkdir(os.path.join(top, "bin"))
    os.symlink(ckpt, os.path.join(top, "bin", "ckpt"))
    write("#!/bin/sh\necho \"$@\" >>'%s/log'\n" % top, top, "bin", "logger", mode=0o755)
    write("#!/bin/sh\nshift 2; shift; exec sh -c \"$*\"\n", top, "bin", "ssh", mode=0o755)
    write("x" * 100000, top, "m.pt")


def the_slurm_script(top):
    """As slurmd runs it on a node, for a job of one."""
    script = os.path.join(top, "stage.sh")
    text = read(folder, "broadcast-slurm-prolog.sh")
    for name, value in (("PATH", "%s/bin:%s" % (top, os.environ["PATH"])), ("conf", top + "/conf"), ("folder", top + "/staged"),
                        ("state", top + "/state"), ("keep", "0s")):
        text, count = re.subn(r"(?m)^((?:export )?%s=)\S+" % name, lambda m: "%s'%s'" % (m.group(1), value), text)
        assert count == 1, name
    write(text, script, mode=0o755)
    os.makedirs(top + "/conf/stage")
    os.mkdir(top + "/run2")
    write("0123456789abcdef\n", top, "conf", "token", mode=0o600)
    write("y" * 100000, top, "run2", "m.pt")
    write("# a comment\n\nMODEL %s/m.pt\nOTHER %s/missing.pt\nSAME_NAME %s/run2/m.pt\n" % (top, top, top), top, "conf", "stage", "gpu")
    job = dict(SLURM_JOB_ID="7", SLURM_JOB_PARTITION="gpu", SLURM_JOB_NODELIST="localhost", SLURMD_NODENAME="localhost")

    def as_slurmd(context, code=0, **more):
        return run("sh", script, env=environment(top, **dict(job, SLURM_SCRIPT_CONTEXT=context, **more)), code=code)

    as_slurmd("prolog_slurmd")
    wanted = "export MODEL=%s/staged/MODEL-m.pt\nexport OTHER=%s/missing.pt\nexport SAME_NAME=%s/staged/SAME_NAME-m.pt\n" % (top, top, top)
    assert as_slurmd("prolog_task") == wanted, as_slurmd("prolog_task")
    assert read(top, "staged", "MODEL-m.pt") == read(top, "m.pt")
    assert read(top, "staged", "SAME_NAME-m.pt") == read(top, "run2", "m.pt")
    assert "missing.pt: cannot open" in read(top, "log"), read(top, "log")
    assert as_slurmd("prolog_task", SLURM_JOB_ID="8") == ""
    as_slurmd("epilog_slurmd")
    assert as_slurmd("prolog_task") == "" and os.listdir(top + "/state") == []
    assert os.listdir(top + "/staged") == [], "a copy is older than 0 seconds, and stays"
    as_slurmd("prolog_slurmd", SLURM_JOB_PARTITION="cpu")
    assert os.listdir(top + "/state") == []
    write(text.replace("on_failure=start", "on_failure=drain"), script)
    as_slurmd("prolog_slurmd", code=1)
    write("MODEL %s/m.pt" % top, top, "conf", "stage", "gpu")  # without an end of its line
    as_slurmd("prolog_slurmd")
    assert as_slurmd("prolog_task") == "export MODEL=%s/staged/MODEL-m.pt\n" % top
    as_slurmd("epilog_slurmd")
    os.rmdir(top + "/state")
    write("", top, "state")  # which is no folder then
    as_slurmd("prolog_slurmd", code=1)
    write(text, script)
    as_slurmd("prolog_slurmd")
    os.unlink(top + "/state")
    os.makedirs(top + "/state/job.7")
    as_slurmd("prolog_slurmd")
    assert read(top, "log").count("so nothing is staged") == 3, read(top, "log")
    os.removedirs(top + "/state/job.7")


def the_ssh_loop(top):
    """Both nodes are this one."""
    script = os.path.join(folder, "broadcast-ssh.sh")
    env = environment(top, CKPT_RDZV_PORT=str(20000 + os.getpid() % 10000))
    wanted = "%s/by_ssh/m.pt\n" % top
    assert run("bash", script, top + "/m.pt", top + "/by_ssh", "127.0.0.1", "127.0.0.1", env=env) == wanted
    assert read(top, "by_ssh", "m.pt") == read(top, "m.pt")
    missing = top + "/missing.pt"
    assert run("bash", script, missing, top + "/by_ssh", "127.0.0.1", "127.0.0.1", env=env, code=3) == missing + "\n"
    assert run("bash", script, missing, top + "/by_ssh", env=env, code=64) == missing + "\n"


def the_init_containers(top):
    """Two pods of the Job on this machine, with what Kubernetes would set."""
    try:
        import yaml
    except ImportError:
        print("no PyYAML: the Job was not looked into")
        return
    service, job = yaml.safe_load_all(read(folder, "broadcast-kubernetes.yaml"))
    spec = job["spec"]
    pod = spec["template"]["spec"]
    init, train = pod["initContainers"][0], pod["containers"][0]
    env = {row["name"]: row.get("value") for row in init["env"]}
    host = "%s-0.%s" % (job["metadata"]["name"], pod["subdomain"])
    assert pod["subdomain"] == service["metadata"]["name"] and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]} and service["spec"]["publishNotReadyAddresses"]
    assert spec["completions"] == spec["parallelism"] == int(env["CKPT_WORLD_SIZE"]) and spec["completionMode"] == "Indexed"
    volumes = {volume["name"] for volume in pod["volumes"]}
    assert {mount["name"] for container in (init, train) for mount in container["volumeMounts"]} == volumes
    assert any("tcp://%s:" % host in word for word in init["command"]), (host, init["command"])
    assert train["command"][-1] == init["command"][-1] + os.path.basename(init["command"][-2])
    os.mkdir(top + "/pods")
    port = str(30000 + os.getpid() % 2000)
    words = [word.replace("tcp://%s:29400" % host, "tcp://127.0.0.1:" + port).replace("/shared/model.pt", top + "/m.pt")
             .replace("/dev/shm/", top + "/pods/%r.pt") for word in init["command"]]
    ranks = [subprocess.Popen(words, env=environment(top, CKPT_WORLD_SIZE="2", CKPT_TOKEN="0123456789abcdef",
                                                     JOB_COMPLETION_INDEX=str(rank))) for rank in range(2)]
    try:
        assert [rank.wait(60) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    for rank in "01":
        assert read(top, "pods", rank + ".pt") == read(top, "m.pt")


def main(examples, command):
    global folder, ckpt
    folder, ckpt = examples, command
    printed_texts_are_the_files()
    shells_and_options()
    with tempfile.TemporaryDirectory() as top:
        prepare(top)
        for check in (the_slurm_script, the_ssh_loop, the_init_containers):
            check(top)
    print("the scripts for jobs are what they say")
