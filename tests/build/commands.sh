#!/bin/sh
# SPDX-License-Identifier: MIT
# What the documents tell a reader to write is run as it stands there, on the simulator, in a folder that is empty at first: commands, policies,
# programs. Each block has a language. A block becomes a file where the line above it ends with the file's name and a colon; other files come
# from the document's own commands. What cannot be run here is in the list below, with the reason.
# shellcheck source=tests/tools/weir.sh
. "${top_srcdir:-.}/tests/tools/weir.sh"
top_srcdir=$(cd "$top_srcdir" && pwd -P) top_builddir=$(cd "$top_builddir" && pwd -P)
actor=$top_builddir/tests/tools/sharing
library=$top_builddir/lib/.libs/libweir.so
[ -x "$actor" ] || skip_all "built without libcheck, and so without a process to be asked"
[ -e "$library" ] || skip_all "there is no shared libweir in this build"
needs_simulator

# Reason, then the command without its comment.
cat >"$tap_dir/not_run" <<'LIST'
builds all of Weir; .ci/run does it            | ./quickstart
builds all of Weir; .ci/run does it            | ./quickstart check
needs root; .ci/run does it elsewhere          | sudo make -C build install && sudo ldconfig
builds all of Weir; distcheck does it          | autoreconf -i && mkdir -p /tmp/weir && cd /tmp/weir && ~/weir/configure --enable-werror && make -j && make check
runs this test                                 | make -C build check
all guards, of which this test is one          | .ci/run
all guards, of which this test is one          | .ci/run --nightly
all guards, of which this test is one          | .ci/run cppcheck tsan
NAME is the reader's                           | make -C build check TESTS=tests/unit/NAME
NAME is the reader's                           | cd build && CK_FORK=no WEIR_GPU=sim ./libtool --mode=execute gdb tests/unit/NAME
takes a minute; .ci/run does it                | build/tests/chaos/chaos --mode virtual --seconds 60
a seed that found something                    | build/tests/chaos/chaos --mode virtual --seed 17 --programs 1
takes a minute; .ci/run does it                | build/tests/chaos/chaos --mode real --seconds 60
takes a minute; .ci/run does it                | build/tests/chaos/chaos --mode real --sharing --seconds 60
links all programs; tests/python/wheel.sh      | make -C build wheel
needs that file; tests/python/wheel.sh         | pip install build/weir_gpu-*.whl
needs a torch; tests/python/wheel.sh has none  | make -C build wheel TORCH="$HOME/torch-2.11 $HOME/torch-2.8"
needs torch's C++ headers; tests/python/shim.sh | python -m weir.torch build
needs torch; tests/gpu/torch does it           | weir run --policy pytorch.yaml torchrun --nproc-per-node=2 train.py
needs torch; tests/gpu/torch does it           | weir run --policy=training torchrun --nproc-per-node=2 train.py
the program is the reader's; tests/python/run.sh | weir run --policy pytorch python train.py
the program is the reader's; tests/python/run.sh | weir run --policy=training python3 train.py --epochs 90
the program is the reader's; tests/python/run.sh | weir record --stacks -o train-%p.weir -- weir run python3 train.py
needs torch and a GPU; examples/run.sh does it | python3 "$(pkg-config --variable=exampledir weir)/share_torch.py"
needs NumPy; examples/run.sh does it           | WEIR_GPU=sim WEIR_SIM=name=demo python3 "$(pkg-config --variable=exampledir weir)/share_torch.py"
needs torch; tests/gpu/torch does it           | torch.cuda.memory._record_memory_history()
needs torch; tests/gpu/torch does it           | with weir.torch.pool("activations"):
needs torch; tests/python/shim.sh does it       | with weir.torch.pool("weights"):            # in the policy: weights: { backing: arena }
needs RMM; tests/gpu/rmm has it                | weirpp::weir w = weirpp::weir::open().value();
needs torch; tests/gpu/torch does it           | pool = torch.cuda.MemPool(weir.torch.mem_pool_allocator("pytorch.yaml"))
the program is a model of the authors'         | weir record -o generation.weir -- weir run -- python generate.py
the program is a model of the authors'         | WEIR_POLICY=small.yaml weir record -o after.weir -- weir run -- python generate.py
needs that program's second trace              | weir trace generation.weir after.weir
needs a GPU; tests/bench/compare.sh does it without | bench/torch/compare.py --out results --rmm wheels --time-limit 480
needs that run's results; tests/bench/compare.sh   | bench/torch/compare.py --table results --into doc/performance.md
needs a GPU; bench/results has one's output    | weir tune --verify -o policy.yaml generation.weir
ends when it is told to; tests/tools/top.sh has it | weir top
a line of a crontab, written by root           | * * * * * root weir metrics --output=/var/lib/prometheus/node-exporter/weir.prom
a line of a configuration file of root's       | d /run/weir/share 0711 exporter root -
needs a user's session                         | mkdir -m 0700 /run/user/1000/gpu
needs Docker                                   | docker run --gpus all --user 1000 -v /run/user/1000/gpu:/gpu -e WEIR_CONTROL_DIR=/gpu …
needs a refused request; tests/tools/why.sh    | weir trace why train.weir
the program is the reader's; tests/tools/unaware_examples.sh | weir record --any --stacks -o app.weir -- ./app
needs its trace; tests/tools/unaware.sh        | weir trace app.weir
needs its trace; tests/tools/unaware.sh        | weir trace waits app.weir
needs its trace; tests/tools/unaware.sh        | weir replay --policy=pytorch --policy=inference app.weir
needs its trace; tests/tools/page_browser.sh   | weir trace page --policy=pytorch -o app.html app.weir
needs CUDA; `make check` builds it             | cc -g "$(pkg-config --variable=exampledir weir)/unaware/frees.c" -o frees -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart
needs a GPU; tests/tools/unaware_examples.sh   | weir record --any --stacks -o frees.weir -- ./frees
needs a GPU; tests/tools/unaware_examples.sh   | weir trace waits frees.weir
needs CUDA; `make check` builds it             | cc -g "$(pkg-config --variable=exampledir weir)/unaware/segments.c" -o segments -I/usr/local/cuda/include -L/usr/local/cuda/lib64 -lcudart
needs a GPU; tests/tools/unaware_examples.sh   | weir record --any --stacks -o segments.weir -- ./segments
needs a GPU; tests/tools/unaware_examples.sh   | weir trace why segments.weir
needs NumPy; tests/tools/export.sh             | python3 -m weir.trace export --memory-viz=snapshot.pickle train.weir
needs perfetto; tests/tools/export.sh          | python3 -m weir.trace export --perfetto=job.pftrace train.weir now.weir
needs NumPy; tests/tools/export.sh             | python3 -m weir.trace export --rmm=rmm.csv train.weir
needs pandas; tests/python/trace.sh            | import pandas, weir.trace
needs the scripts of flame graphs              | weir trace stacks --collapsed train.weir | flamegraph.pl >stacks.svg
needs that folder                              | WEIR_CONTROL_DIR=/run/user/1000/gpu weir ps
LIST
sed 's/^[^|]*| //' "$tap_dir/not_run" >"$tap_dir/listed"
: >"$tap_dir/seen"

# bare LINE: without the comment at its end.
bare() {
    printf '%s\n' "$1" | sed 's/   *#.*//'
}

# not_run COMMAND: it is in the list.
not_run() {
    grep -q -x -F -e "$1" "$tap_dir/listed" && printf '%s\n' "$1" >>"$tap_dir/seen"
}

# blocks DOCUMENT FOLDER: each block of the document as a file NUMBER.LANGUAGE, or NUMBER,NAME.LANGUAGE where the line above it names a file. Of
# a manual page the language is the comment before a .Bd; a .Dl that begins with a dollar is a command.
blocks() {
    awk -v folder="$2" '
        function begin(language) {
            file = sprintf("%s/%03d%s.%s", folder, ++count, name ? "," name : "", language ? language : "none")
            inside = 1
        }
        FILENAME ~ /\.md$/ && /^ *```/ {
            match($0, /^ */); indent = RLENGTH; fence = substr($0, indent + 4)
            if (inside) { inside = 0; close(file) } else begin(fence)
            name = ""
            next
        }
        # Indented alone: a block without a language.
        FILENAME ~ /\.md$/ && !inside && is_blank && /^    [^ ]/ { begin(""); print >file; close(file); inside = 0 }
        FILENAME ~ /\.md$/ {
            is_blank = !NF
            if (inside) print substr($0, indent + 1) >file
            else if (NF) name = match($0, /`[A-Za-z0-9_-]+\.[a-z]+`:$/) ? substr($0, RSTART + 1, RLENGTH - 3) : ""
            next
        }
        { gsub(/\\-/, "-"); gsub(/\\&/, "") }
        /^\.\\" (sh|console|yaml|pool|c|cpp|cmake|meson|python|text)$/ { language = $2; next }
        /^\.Bd -literal/ { begin(language); language = name = ""; next }
        /^\.Ed/ { inside = 0; next }
        /^\.Dl / {
            text = substr($0, 5); is_command = text ~ /^\$ /
            if (!is_command || !is_listing) { begin(is_command ? "console" : "line"); inside = 0 }
            is_listing = is_command
            gsub(/\\e/, "\\", text); print text >file; next
        }
        { is_listing = 0 }
        inside { gsub(/\\e/, "\\"); print >file; next }
        { name = $1 == ".Pa" && $3 == ":" ? $2 : "" }' "$1"
}

# What a reader has: Weir, installed, a C compiler, pkg-config and Python. Weir is moved to where it is found here: its policies by a variable,
# its library by another, all else by pkg-config.
stage=$tap_dir/stage
env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -s -C "$top_builddir" DESTDIR="$stage" install-libLTLIBRARIES install-data >"$tap_dir/make" 2>&1 || {
    cat "$tap_dir/make"
    exit 1
}
made() {
    sed -n "s/^$1 = //p" "$top_builddir/Makefile"
}
package=$(find "$stage" -name weir.pc)
PKG_CONFIG_PATH=${package%/*}
CMAKE_PREFIX_PATH=$stage$(made prefix)
LD_LIBRARY_PATH=${PKG_CONFIG_PATH%/*}
export PKG_CONFIG_PATH CMAKE_PREFIX_PATH LD_LIBRARY_PATH
tools=$tap_dir/tools
mkdir "$tools" "$HOME"
mkdir -m 700 "$tap_dir/run"
sanitizers=$(made WEIR_CFLAGS | grep -o -e '-fsanitize=[^ ]*' | tr '\n' ' ')
printf '#!/bin/sh\nexec %s %s "$@"\n' "$(made CC)" "$sanitizers" >"$tools/cc"
printf '#!/bin/sh\nexec %s --define-variable=prefix=%s "$@"\n' "$(command -v pkg-config)" "$CMAKE_PREFIX_PATH" >"$tools/pkg-config"
printf '#!/bin/sh\nexec python3 "$@"\n' >"$tools/python"
# Whoever answers does so on a slow machine, too.
cat >"$tools/weir" <<SH
#!/bin/sh
case \$1 in
ps | trim | set | reload | metrics | leases | evict) command=\$1 && shift && exec '$weir' "\$command" --timeout=60 "\$@" ;;
run) shift && exec '$weir' run --gpu=sim "\$@" ;;
*) exec '$weir' "\$@" ;;
esac
SH
chmod +x "$tools"/*
export XDG_RUNTIME_DIR="$tap_dir/run" XDG_CACHE_HOME="$tap_dir/cache" WEIR_CONTROL_DIR="$tap_dir/run"
export WEIR_POLICY_DIR="$CMAKE_PREFIX_PATH/share/weir" WEIR_COSTS_DIR="$CMAKE_PREFIX_PATH/share/weir/costs"
unset COLUMNS

# Why commands in Python cannot be run here; empty if they can.
no_python=$(sh "$top_srcdir/tests/python/python.sh")
no_python=${no_python#*SKIP }
# shellcheck source=tests/python/python.sh
[ -n "$no_python" ] || . "$top_srcdir/tests/python/python.sh"
# What a reader's commands are has to come before all else that is called so, and so after python.sh.
export PATH="$tools:$PATH"

# The process 4711 of the documents imports from an exporter of the pool 'frames', and may be asked and changed.
cat >"$tap_dir/exporter.yaml" <<'YAML'
weir: 1
defaults: { pool: work }
pools:
  work: {}
  frames: { devices: [0], ipc: posix_fd, max_size: 128MiB, share: { socket: frames } }
YAML
cat >"$tap_dir/importer.yaml" <<'YAML'
weir: 1
control: true
defaults: { pool: main }
pools: { main: {}, default: {}, tensors: {} }
YAML
processes_begin() {
    export WEIR_SIM="name=commands-$$,memory=1GiB"
    WEIR_POLICY=$tap_dir/exporter.yaml begin exporter 3 exporter || return
    WEIR_POLICY=$tap_dir/importer.yaml begin importer 4 importer || return
    reader=$begun
    tell importer 4 acquire weights
}
processes_end() {
    exec 3>&- 4>&-
    for pid in $all; do
        bury "$pid"
    done
    all='' reader=''
    rm -f exporter.* importer.*
    unset WEIR_SIM
}

# run_command COMMAND: as the reader's shell runs it, where 4711 is $reader, a minute of recording a tenth of a second, and a simulated machine
# this test's own. What it prints is $printed.
printed=$tap_dir/printed
run_command() {
    echo "\$ $1"
    sh -c "$(printf '%s\n' "$1" | sed "s/4711/$reader/g; s/--seconds=60/--seconds=0.1/g; s/name=demo/name=demo-$$/g")" >"$printed" 2>&1 </dev/null
}

# shows FILE: what was printed has the lines of the file, in their order. Dots stand for what is left out, and blanks for as many.
shows() {
    awk '
        function squeezed(line) { gsub(/[ \t]+/, " ", line); sub(/^ /, "", line); sub(/ $/, "", line); return line }
        FILENAME == ARGV[1] { if (squeezed($0) !~ /^(…|\.\.\.)?$/) wanted[++count] = squeezed($0); next }
        BEGIN { next_one = 1 }
        next_one <= count && index(squeezed($0), wanted[next_one]) { next_one++ }
        END { if (next_one <= count) { print "it does not print: " wanted[next_one]; exit 1 } }' "$1" "$printed" || {
        cat "$printed"
        return 1
    }
}

# judge: the command that was run last did what the block says. It succeeds, unless what it prints is below it; then it prints that, but for
# figures that are never the same.
judge() {
    [ -n "$status" ] || return 0
    case $command in
    "weir leases"*) ;;
    *)
        if [ -s "$shown" ]; then
            shows "$shown"
            return
        fi ;;
    esac
    [ "$status" = 0 ] || {
        echo "status $status"
        cat "$printed"
        return 1
    }
}

# run_lines FILE PREFIX: the lines that begin with the prefix are commands, and what they print is below them.
shown=$tap_dir/shown
run_lines() {
    status=''
    while IFS= read -r line <&8; do
        case $line in
        "$2"*)
            judge || return
            command=$(bare "${line#"$2"}") status=''
            : >"$shown"
            not_run "$command" || { run_command "$command" && status=0 || status=$?; } ;;
        *) printf '%s\n' "$line" >>"$shown" ;;
        esac
    done 8<"$1"
    judge
}

run_sh() {
    run_lines "$1" ''
}
run_console() {
    run_lines "$1" '$ '
}
run_line() {
    while IFS= read -r line; do
        not_run "$line" || { echo "neither a command (\$ …) nor in the list of $0: $line" && return 1; }
    done <"$1"
}
# saved BLOCK NAME: the block in the file that the document names, and in one of that name else. That file is $saved.
saved() {
    saved=${1##*/}
    case $saved in
    *,*) saved=${saved#*,} && saved=${saved%.*} ;;
    *) mkdir -p ../unnamed && saved=../unnamed/$2 ;;
    esac
    cp "$1" "$saved"
}
run_yaml() {
    saved "$1" policy.yaml && weir check "$saved"
}
# Keys of a pool, each line by itself.
run_pool() {
    while IFS= read -r line; do
        printf 'weir: 1\npools: { main: { %s } }\n' "$line" >pool.yaml && weir check pool.yaml && rm pool.yaml || return
    done <"$1"
}
# Of a whole program and of whole functions it is seen that they compile as they stand, of a part with the names that the documents use.
run_c() {
    if grep -q '^#include' "$1"; then
        saved "$1" program.c || return
        if grep -q '^int main' "$1"; then
            # shellcheck disable=SC2046 # several words
            cc -std=c11 -Wall -Wextra -Werror "$saved" -o ../unnamed-program $(pkg-config --cflags --libs weir) && ../unnamed-program
        else
            # shellcheck disable=SC2046 # several words
            cc -std=c11 -Wall -Wextra -Werror -fsyntax-only "$saved" $(pkg-config --cflags weir)
        fi
    else
        {
            printf '#include <%s>\n' unistd.h weir.h
            echo 'void part(weir *w, weir_pool *pool, weir_export *e, weir_export *shared, weir_ring *ring, weir_import *i, weir_import *import,'
            echo '    weir_reader *reader, weir_lease *lease, weir_cuda_stream stream, void *ptr, void *frame, size_t size, size_t frame_size,'
            echo '    size_t slot_size, int shape, weir_error error);'
            echo 'void part(weir *w, weir_pool *pool, weir_export *e, weir_export *shared, weir_ring *ring, weir_import *i, weir_import *import,'
            echo '    weir_reader *reader, weir_lease *lease, weir_cuda_stream stream, void *ptr, void *frame, size_t size, size_t frame_size,'
            echo '    size_t slot_size, int shape, weir_error error)'
            echo '{'
            cat "$1"
            echo '}'
        } >../part.c
        cc -std=c11 -D_DEFAULT_SOURCE -Wall -Wextra -Werror -Wno-unused -Wno-unused-parameter -Wno-unused-result -fsyntax-only -I"$top_srcdir/include" ../part.c
    fi
}
run_python() {
    # Nothing here runs a kernel.
    {
        printf 'import functools, torch, weir.cupy, weir.torch\n'
        for function in weir.torch.enable weir.cupy.allocator; do
            printf '%s = functools.partial(%s, gpu="sim")\n' $function $function
        done
        printf 'step, batch = sum, [1, 2]\n'
        cat "$1"
    } >../block.py
    if not_run "$(head -n 1 "$1")"; then
        python3 -c 'compile(open("../block.py").read(), "block.py", "exec")'
    else
        python3 ../block.py
    fi
}
# The lines of a project that has a program.c beside them. It runs under the policy of the document, if that has one.
project() {
    rm -rf ../project && mkdir ../project && cp program.c ../project
}
project_runs() {
    if [ -e policy.yaml ]; then
        WEIR_POLICY=policy.yaml ../project/b/program
    else
        ../project/b/program
    fi
}
run_cmake() {
    project && cp "$1" ../project/CMakeLists.txt && CC=cc cmake -S ../project -B ../project/b && cmake --build ../project/b && project_runs
}
run_meson() {
    project && cp "$1" ../project/meson.build && CC=cc meson setup ../project/b ../project && meson compile -C ../project/b && project_runs
}
# No compiler for C++ is asked for: such a block is in the list.
run_cpp() {
    not_run "$(head -n 1 "$1")" || { echo "not in the list of $0: $(head -n 1 "$1")" && return 1; }
}
run_text() {
    ! grep -n '^\$ ' "$1"
}
run_none() {
    echo "a block without a language:"
    cat "$1"
    return 1
}

own_tools_come_first() {
    for tool in "$tools"/*; do
        [ "$(command -v "${tool##*/}")" = "$tool" ] || { echo "${tool##*/} is $(command -v "${tool##*/}")" && return 1; }
    done
}
check "tools_of_the_test_come_before_all_others" own_tools_come_first

# Each entry of the list has a reason, and a file that a reason names is there.
reasons_hold() {
    ! grep -v -n '^[^| ][^|]* *| .' "$tap_dir/not_run" &&
        sed 's/|.*//' "$tap_dir/not_run" | grep -o '[.a-z]*/[a-z/_]*[a-z._]*' | sort -u >"$tap_dir/named" && [ -s "$tap_dir/named" ] &&
        while IFS= read -r path; do
            [ -e "$path" ] || { echo "a reason names $path, which does not exist" && return 1; }
        done <"$tap_dir/named"
}
if [ -e "$top_srcdir/.git" ]; then
    cd "$top_srcdir" || exit 1
    check "each_command_that_is_not_run_has_a_reason" reasons_hold
else
    skip "each_command_that_is_not_run_has_a_reason" "this is no clone: not all that the reasons name is in a tarball"
fi

# What is wrong is found.
mkdir "$tap_dir/blocks"
cat >"$tap_dir/sample.md" <<'MD'
```
nothing
```
   ```console
   $ echo 'one   two'
   one two
   $ false
   ```
```console
$ echo one
two
```
```yaml
weir: 2
```
Into `named.yaml`:

```yaml
weir: 1
pools: { main: {} }
```

    echo indented

```sh
weir check named.yaml
weir check policy.yaml
```
MD
cat >"$tap_dir/sample.7" <<'ROFF'
.Dl a line
.Dl $ true \-\-
.Dl $ printf '1\en2' | grep 2
.\" c
.Bd -literal
weir_close(v);
.Ed
This is
.Pa page.yaml :
.\" yaml
.Bd -literal
weir: 1
.Ed
ROFF
blocks "$tap_dir/sample.md" "$tap_dir/blocks"
found() {
    ! "$@"
}
mkdir "$tap_dir/sample" && cd "$tap_dir/sample" || exit 1
check "block_without_a_language_is_found" found run_none ../blocks/001.none
check "command_that_fails_is_found" found run_console ../blocks/002.console
check "other_output_is_found" found run_console ../blocks/003.console
check "bad_policy_is_found" found run_yaml ../blocks/004.yaml
check "block_with_a_name_becomes_a_file" run_yaml ../blocks/005,named.yaml.yaml
check "command_whose_file_the_document_does_not_make_is_found" found run_sh ../blocks/007.sh
check "indented_block_has_no_language" test -s ../blocks/006.none
check "it_is_the_command_with_that_file" grep -q -F "policy.yaml: cannot read" "$printed"
blocks "$tap_dir/sample.7" "$tap_dir/blocks"
check "line_that_is_not_in_the_list_is_found" found run_line ../blocks/001.line
check "commands_of_a_manual_page_are_run" run_console ../blocks/002.console
check "program_that_does_not_compile_is_found" found run_c ../blocks/003.c
check "block_of_a_page_with_a_name_becomes_a_file" test -s ../blocks/004,page.yaml.yaml
rm -rf "$tap_dir/blocks" "$tap_dir/unnamed"

cd "$top_srcdir" || exit 1
for document in README.md CONTRIBUTING.md doc/*.md man/*.[1-9] man/*.in; do
    name=$(basename "$document" .in)
    mkdir "$tap_dir/blocks" && blocks "$document" "$tap_dir/blocks" && mkdir -p "$tap_dir/$name/empty" && cd "$tap_dir/$name/empty" || exit 1
    for block in "$tap_dir/blocks"/*; do
        [ -e "$block" ] || continue
        language=${block##*.} reader=''
        fact=${name}_block_$(basename "$block" ".$language" | sed -e 's/^0*//' -e 's/,.*//')_is_good_$language
        if [ -n "$no_python" ] && { [ "$language" = python ] || grep -q python "$block"; }; then
            skip "$fact" "$no_python"
            while IFS= read -r line; do
                not_run "$(bare "${line#'$ '}")"
            done <"$block"
            continue
        fi
        case $language in
        cmake | meson)
            command -v "$language" >/dev/null || { skip "$fact" "$language is missing: install it" && continue; } ;;
        esac
        if [ "$language" = console ] && grep -q generation.weir "$block" && ! grep -q 'define HAVE_ZSTD 1' "$top_builddir/config.h"; then
            skip "$fact" "built without libzstd, which packs the shipped trace"
            continue
        fi
        if grep -q 4711 "$block"; then
            check "${fact}_has_a_process" processes_begin
        fi
        check "$fact" "run_$language" "$block"
        [ -z "$reader" ] || processes_end
    done
    cd "$top_srcdir" && rm -rf "$tap_dir/blocks"
done
for list in listed seen; do
    sort -u "$tap_dir/$list" -o "$tap_dir/$list"
done
check "what_is_not_run_is_in_a_document" diff "$tap_dir/listed" "$tap_dir/seen"
done_testing
