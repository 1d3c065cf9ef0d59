#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/cluster/: the policy does what it says under each launcher's environment, and the files start what they say. The launchers
# themselves are stand-ins.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
unset RANK LOCAL_RANK SLURM_PROCID SLURM_LOCALID OMPI_COMM_WORLD_LOCAL_RANK WEIR_QUOTA CUDA_MPS_PINNED_DEVICE_MEM_LIMIT CUDA_DEVICE_MEMORY_LIMIT \
    CUDA_DEVICE_MEMORY_LIMIT_0 CUDA_DEVICE_MEMORY_LIMIT_1 SLURM_SUBMIT_DIR PYTHONPATH
top_srcdir=$(cd "$top_srcdir" && pwd -P) top_builddir=$(cd "$top_builddir" && pwd -P)
cluster=$top_srcdir/examples/cluster
WEIR_PYTHON_DIR=$top_srcdir/plugin/python
WEIR_TORCH_LIBRARY=$tap_dir/library.so
export top_srcdir top_builddir WEIR_PYTHON_DIR WEIR_TORCH_LIBRARY WEIR_CONTROL_DIR="$tap_dir" WEIR_SIM=devices=2,memory=2GiB
: >"$WEIR_TORCH_LIBRARY"
cd "$tap_dir" || exit 1

# as ASSIGNMENT… -- STATUS ARGUMENT…: exits() in that environment.
as() (
    while [ "$1" != -- ]; do
        export "${1?}"
        shift
    done
    shift
    exits "$@"
)
# The policy opens there, and serves.
try_as() {
    as "$@" -- 0 try --gpu=sim --seconds=0.1 --threads=1 --json "$cluster/policy.yaml"
}

check "policy_is_good" exits 0 check "$cluster/policy.yaml"
check "rank_of_torchrun_has_its_device" try_as LOCAL_RANK=1
check "task_of_slurm_has_its_device" try_as SLURM_LOCALID=1
check "task_that_sees_one_device_has_that" try_as SLURM_LOCALID=3 WEIR_SIM=devices=1,memory=2GiB
check "pod_with_half_a_device_is_served" try_as WEIR_QUOTA=50% WEIR_SIM=devices=1,memory=2GiB
check "rank_without_a_device_is_refused" as LOCAL_RANK=2 -- 1 try --gpu=sim --seconds=0.1 "$cluster/policy.yaml"
check "its_variable_is_named" says "$err" "LOCAL_RANK is 2"

# The stand-ins print what they were told, for their weir is ours.
mkdir bin job
ln -s "$weir" bin/weir
for launcher in torchrun srun; do
    printf '#!/bin/sh\necho %s "$@"\necho "policy $WEIR_POLICY"\n' $launcher >bin/$launcher
    chmod +x bin/$launcher
done
cp "$cluster/policy.yaml" job
PATH=$tap_dir/bin:$PATH
starts() {
    # weir run refuses the simulator, as torch cannot use it.
    env -u WEIR_GPU sh "$@" >"$out" 2>"$err" || { cat "$err"; return 1; }
}
check "torchrun_is_started" starts "$cluster/torchrun.sh" 4 train.py --epochs 90
check "torchrun_is_told_how_many_ranks" says "$out" "torchrun --nproc-per-node=4 train.py --epochs 90"
check "torchrun_finds_the_policy_beside_its_script" says "$out" "policy $cluster/policy.yaml"
fails() {
    ! sh "$@" >"$out" 2>"$err" && says "$err" "usage: "
}
check "torchrun_without_ranks_says_how_it_is_used" fails "$cluster/torchrun.sh"
check "torchrun_without_a_program_says_how_it_is_used" fails "$cluster/torchrun.sh" 4
submit() (
    SLURM_SUBMIT_DIR=$tap_dir/job starts "$cluster/slurm.sbatch" train.py --epochs 90
)
check "tasks_are_started" submit
check "tasks_run_the_program_under_weir" says "$out" "srun weir run --policy=policy.yaml -- python3 train.py --epochs 90"
check "slurm_without_a_program_says_how_it_is_used" fails "$cluster/slurm.sbatch"
if command -v shellcheck >/dev/null; then
    check "scripts_are_clean" shellcheck -s sh "$cluster/torchrun.sh" "$cluster/slurm.sbatch"
else
    skip "scripts_are_clean" "no shellcheck"
fi

if python3 -c 'import yaml' 2>/dev/null; then
    cat >pods.py <<'PYTHON'
import sys
import yaml

config, job = yaml.safe_load_all(open(sys.argv[1] + "/kubernetes.yaml", encoding="utf-8"))
assert (config["kind"], job["kind"]) == ("ConfigMap", "Job"), (config, job)
assert config["data"]["policy.yaml"] == open(sys.argv[1] + "/policy.yaml", encoding="utf-8").read(), "the policies differ"
pod = job["spec"]["template"]["spec"]
container = pod["containers"][0]
volumes = {volume["name"]: volume for volume in pod["volumes"]}
mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
assert mounts["/etc/weir"]["configMap"]["name"] == config["metadata"]["name"], mounts
assert container["command"][:2] == ["weir", "run"] and "--policy=/etc/weir/policy.yaml" in container["command"], container
environment = {item["name"]: item.get("value") for item in container["env"]}
assert list(environment) == ["POD_NAME", "WEIR_QUOTA", "WEIR_CONTROL_DIR"], container

# The pods of a node share the control directory, which is their user's.
directory = environment["WEIR_CONTROL_DIR"]
assert mounts[directory]["hostPath"]["type"] == "DirectoryOrCreate", mounts
maker = pod["initContainers"][0]
assert [mount["mountPath"] for mount in maker["volumeMounts"]] == [directory], maker
assert [volumes[mount["name"]] for mount in maker["volumeMounts"]] == [mounts[directory]], maker
assert maker["securityContext"]["runAsUser"] == 0 and maker["command"][-1] == directory, maker
assert maker["command"][maker["command"].index("-o") + 1] == str(pod["securityContext"]["runAsUser"]), maker
PYTHON
    check "manifest_has_the_same_policy_and_what_it_says" python3 pods.py "$cluster"
else
    skip "manifest_has_the_same_policy_and_what_it_says" "no python3 with yaml"
fi

# Each line of the policy's comments for a notebook.
no_python=$(sh "$top_srcdir/tests/python/python.sh")
line() {
    sed -n "s/^#     \\($1.*\\)/\\1/p" "$cluster/policy.yaml" | grep .
}
conf_is_good() {
    conf=$(line WEIR_CONF=) && WEIR_CONF=${conf#*=} WEIR_SIM=devices=1 exits 0 show "$cluster/policy.yaml" &&
        row pools.tensors.release_threshold auto && row keeper true
}
check "environment_of_a_notebook_is_good" conf_is_good
cell_is_good() (
    cell=$(line 'import weir') && cd "$cluster" && unset WEIR_POLICY WEIR_PYTHON_DIR WEIR_TORCH_LIBRARY &&
        . "$top_srcdir/tests/python/python.sh" &&
        WEIR_SIM=devices=1 python3 -c "import functools, weir.torch
weir.torch.enable = functools.partial(weir.torch.enable, gpu='sim')
$cell
assert weir.torch.state()"
)
if [ -n "$no_python" ]; then
    skip "cell_of_a_notebook_is_good" "${no_python#*SKIP }"
elif ! has_simulator; then
    skip "cell_of_a_notebook_is_good" "libweir was built without the simulator"
else
    check "cell_of_a_notebook_is_good" cell_is_good
fi
done_testing
