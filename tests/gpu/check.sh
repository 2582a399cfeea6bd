#!/usr/bin/env bash
# What must hold on real GPUs and CI cannot show: bits on 1, 2 and 4 GPUs, resumes across counts, PyTorch's golden losses, a lost peer.
#   tests/gpu/check.sh BIN_DIR   run from the root of the tree; BIN_DIR holds trainrun and the gpu_* tests. Needs mpirun, 4 GPUs for all of it;
#   on fewer, runs take as many ranks as there are, and meshes that need more are left out.
# HOSTS=2 runs twice as many ranks as there are GPUs, as if on two hosts (as_hosts.sh): what needs 4 GPUs, on 2.
# ONLY="nccl bits mesh cross llama sparse golden lost plan" chooses parts; "sanitize" runs when it is asked for alone:
# the gpu_* tests under compute-sanitizer, each for at most SANITIZE_SECONDS (250), by the tools SANITIZE ("memcheck racecheck").
# Ends with the number of failures as its exit code.
set -u
bin=${1:?usage: tests/gpu/check.sh BIN_DIR}
only=${ONLY:-units nccl bits mesh cross llama sparse golden lost plan}
gpus=$(nvidia-smi -L | wc -l) there=$gpus
work=${WORK:-$(mktemp -d)}
mkdir -p "$work"
if ((${HOSTS:-1} > 1)); then
  mkdir -p "$work/path"
  cat > "$work/path/mpirun" <<SCRIPT
#!/usr/bin/env bash
words=()
for word in "\$@"; do
  case \$word in */gpu_nccl_ranks) words+=("$PWD/tests/gpu/as_hosts.sh" $gpus) ;; esac
  words+=("\$word")
done
exec "$(command -v mpirun)" "\${words[@]}"
SCRIPT
  chmod +x "$work/path/mpirun"
  export PATH=$work/path:$PATH
  gpus=$((gpus * HOSTS))
fi
failures=0
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 GOMP_SPINCOUNT=10000 LOCKSTEP_DEADLINE=${LOCKSTEP_DEADLINE:-15}
wants() { [[ " $only " == *" $1 "* ]]; }
fail() { echo "FAIL $*"; failures=$((failures + 1)); }
compare() { python3 tests/gpu/compare.py "$@" || failures=$((failures + 1)); }
# A text of its own, so that limits on differences hold whatever the docs say.
python3 - "$work/text.txt" <<'TEXT'
import random, sys
draw = random.Random(7)
words = ["".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(draw.randint(2, 9))) for _ in range(400)]
open(sys.argv[1], "w").write("\n".join(" ".join(draw.choices(words, k=14)) for _ in range(4000)))
TEXT
cat > "$work/small.json" <<CONFIG
{"name": "small", "model": {"kind": "gpt", "vocab": 256, "context": 256, "width": 256, "depth": 4, "heads": 4},
 "data": {"kind": "text", "paths": ["$work/text.txt"], "validation": 0.1},
 "batch": {"global": 32, "micro": 2}, "train": {"steps": 24, "seed": 7, "eval_every": 12, "device": "cuda"},
 "optim": {"kind": "adamw", "lr": 1e-3, "schedule": {"kind": "constant", "warmup": 4}},
 "checkpoint": {"every": 12, "keep": 3}, "log": {"every": 1, "hash_every": 8}}
CONFIG
config=$work/small.json
train() {  # NAME RANKS [--key=value ...]
  local name=$1 ranks=$2 run=("$config" --name="$1"); shift 2
  if ((${HOSTS:-1} > 1 && ranks > 1)); then  # each rank is a program that says it is on another host
    "$bin/trainrun" show "$config" --name="$name" "$@" > "$work/$name.json"
    run=(--name="$name" tests/gpu/as_hosts.sh $there "$bin/trainrun" worker "$work/$name.json"); set --
  fi
  timeout 120 "$bin/trainrun" --nproc "$ranks" "${run[@]}" "$@" > "$work/$name.log" 2>&1 || { tail -n 5 "$work/$name.log"; fail "$name"; }
}
fresh() { rm -rf "${@/#/runs/}"; }

if wants units; then
  for test in device contents reductions contraction convolution bf16x6 float8 rows table_rows kernels attention \
    together; do
    timeout 400 "$bin/gpu_${test}_test" > "$work/$test.log" 2>&1 && echo "PASS gpu_${test}_test" || { tail -n 5 "$work/$test.log"; fail "gpu_${test}_test"; }
  done
fi
if wants sanitize; then
  # Cases that launch every kind of kernel once or twice; under racecheck a launch takes a hundred times as long, and it
  # does not follow how cuBLASLt's and cuDNN's kernels hand tiles over: there it sees our kernels, and cases of them, alone.
  for tool in ${SANITIZE:-memcheck racecheck}; do  # the tests of a tool run side by side
    declare -A cases=([float8]='*' [reductions]='*' [rows]='*' [table_rows]='*' [bf16x6]='*Odd*:*Cuts*'
      [together]='*layers*' [kernels]='*sums_have_one_order*:*gated*:*multi_tensor*:*dropout*'
      [attention]='*Bf16Agrees*:*Hopper*:*WorksUnder*' [convolution]='*OwnKernel*') runs=()
    skips=
    if [[ $tool == racecheck ]]; then
      skips="--kernel-name-exclude kns=nvjet --kernel-name-exclude kns=cudnn_generated"
      cases[float8]='*Quantize*' cases[attention]='*EveryLane*:*WorksUnder*'
    fi
    for test in "${!cases[@]}"; do
      timeout "${SANITIZE_SECONDS:-250}" compute-sanitizer --tool $tool $skips --error-exitcode 99 \
        "$bin/gpu_${test}_test" --gtest_filter="${cases[$test]}" > "$work/$tool.$test.log" 2>&1 &
      runs[$test]=$!
    done
    for test in "${!cases[@]}"; do
      wait "${runs[$test]}"
      code=$? log=$work/$tool.$test.log
      found=$(grep -cE '^\[       OK \]' "$log")
      if ((code == 0 && found > 0)); then
        echo "PASS $tool gpu_${test}_test, $found cases"
      else
        tail -n 5 "$log"
        ((code == 124)) && code="124, out of time"
        fail "$tool gpu_${test}_test: exit $code, $found cases"
      fi
    done
  done
fi
if wants nccl; then
  for ranks in 1 2 4; do
    ((ranks <= gpus)) || continue
    timeout 240 mpirun --bind-to none -n $ranks "$bin/gpu_nccl_ranks" > "$work/nccl$ranks.log" 2>&1
    grep -E "^(PASS|FAIL):" "$work/nccl$ranks.log" || fail "nccl on $ranks ranks: $(tail -n 1 "$work/nccl$ranks.log")"
  done
fi
if wants bits; then
  two=$((gpus < 2 ? gpus : 2)) four=$((gpus < 4 ? gpus : 4))
  for precision in fp32 tf32 bf16 float8; do
    p="--train.precision=$precision"; r=c_$precision
    fresh ${r}_{1,2,4,4again,stop,stop2}
    train ${r}_1 1 $p; train ${r}_2 $two $p; train ${r}_4 $four $p; train ${r}_4again $four $p
    compare equal ${r}_1 ${r}_2 ${r}_4 ${r}_4again
    train ${r}_stop $four $p --train.steps=12
    cp -r runs/${r}_stop runs/${r}_stop2
    [[ $precision == fp32 ]] && { fresh c_cpu; cp -r runs/${r}_stop runs/c_cpu; }
    train ${r}_stop 1 $p; train ${r}_stop2 $two $p
    compare equal ${r}_1 ${r}_stop ${r}_stop2
    # Moments on the host: the same bits, and a run that goes on with them there.
    fresh ${r}_host{1,4,stop}
    train ${r}_host1 1 $p --optim.offload=true; train ${r}_host4 $four $p --optim.offload=true
    train ${r}_hoststop $four $p --train.steps=12; train ${r}_hoststop 1 $p --optim.offload=true
    compare equal ${r}_1 ${r}_host1 ${r}_host4 ${r}_hoststop
    [[ $precision == float8 ]] || continue  # whole weights are gathered for their 8-bit copies alone
    fresh ${r}_shard; train ${r}_shard $two $p "--mesh.dim_names=[dp_shard]"; compare equal ${r}_1 ${r}_shard
  done
  # Delayed scales, which q, k and v have in common, as gate and up do.
  fresh c_delayed_{1,2,shard,stop}
  delayed="--train.precision=float8 --train.float8.recipe=delayed"
  delayed="$delayed --model.kind=llama --model.kv_heads=2 --model.hidden=512"
  train c_delayed_1 1 $delayed; train c_delayed_2 $two $delayed
  train c_delayed_shard $two $delayed "--mesh.dim_names=[dp_shard]"
  train c_delayed_stop $two $delayed --train.steps=12; train c_delayed_stop 1 $delayed
  compare equal c_delayed_1 c_delayed_2 c_delayed_shard c_delayed_stop
  # Float8 goes on from what bf16 left, on any number of ranks.
  fresh c_from_bf16_{1,2}
  train c_from_bf16_1 $two --train.precision=bf16 --train.steps=12; cp -r runs/c_from_bf16_1 runs/c_from_bf16_2
  train c_from_bf16_1 1 --train.precision=float8; train c_from_bf16_2 $two --train.precision=float8
  compare equal c_from_bf16_1 c_from_bf16_2
  # Products of fp32 that are large enough for Hopper's tensor cores.
  fresh c_wide_{1,2,shard}
  wide="--train.precision=fp32 --train.steps=4 --batch.global=64 --batch.micro=32"
  wide="$wide --model.width=768 --model.heads=12 --model.depth=1"
  train c_wide_1 1 $wide; train c_wide_2 $two $wide; train c_wide_shard $two $wide "--mesh.dim_names=[dp_shard]"
  compare equal c_wide_1 c_wide_2 c_wide_shard
  # Micro-batches that run together: eight at a time, all that a rank has; and one at a time, with ZeRO 3.
  for precision in bf16 float8; do
    t="--train.precision=$precision --compile.together=8" r=c_together_$precision
    fresh ${r}_{1,2,4,shard,stop}
    train ${r}_1 1 $t; train ${r}_2 $two $t; train ${r}_4 $four $t; train ${r}_shard $two $t "--mesh.dim_names=[dp_shard]"
    train ${r}_stop $four $t --train.steps=12; train ${r}_stop 1 $t
    compare equal ${r}_1 ${r}_2 ${r}_4 ${r}_shard ${r}_stop
  done
  # One micro-batch on one rank: gradients are their own sums.
  fresh c_whole c_whole_cpu
  train c_whole 1 --batch.micro=32; train c_whole_cpu 1 --batch.micro=32 --train.device=cpu
  compare close c_whole c_whole_cpu
  train c_cpu 1 --train.device=cpu; compare close c_fp32_1 c_cpu
  fresh c_free; train c_free $four --train.numerics=free; compare close c_fp32_1 c_free
fi
if wants mesh; then
  # DDP, ZeRO 1, 2, 3 and HSDP on 1, 2 and 4 GPUs: one set of bits. Small buckets, so that weights are gathered twice in every micro-batch.
  m="--train.precision=bf16 --train.steps=12 --checkpoint.every=12 --compile.bucket_bytes=300000 --mesh.gather=micro_batch"
  for kind in gpt llama; do
    k=$m; [[ $kind == llama ]] && k="$m --model.kind=llama --model.kv_heads=2 --model.hidden=512"
    fresh m_${kind}_{1,ddp2,ddp4,zero{1,2,3}_{2,4},hsdp22,hsdp12,hosts1,hosts3,layers,fp32_1,fp32_zero3_4}
    names="m_${kind}_1"
    train m_${kind}_1 1 $k
    run_mesh() { train "$@" $k; names="$names $1"; }
    for n in 2 4; do
      ((n <= gpus)) || continue
      [[ $kind == gpt ]] && run_mesh m_${kind}_ddp$n $n
      for zero in 1 2 3; do [[ $kind == gpt || $zero$n == 34 ]] && run_mesh m_${kind}_zero${zero}_$n $n "--mesh.dim_names=[dp_shard]" --mesh.zero=$zero; done
    done
    ((gpus >= 4)) && [[ $kind == gpt ]] && for zero in 1 3; do run_mesh m_${kind}_hosts$zero 4 "--mesh.dim_names=[dp_shard]" --mesh.zero=$zero --mesh.ranks_per_node=2; done
    ((gpus >= 4)) && run_mesh m_${kind}_hsdp22 4 "--mesh.shape=[2,2]" "--mesh.dim_names=[dp_replicate,dp_shard]"
    ((gpus >= 2)) && { train m_${kind}_layers 2 ${k/gather=micro_batch/gather=layers} "--mesh.dim_names=[dp_shard]"; names="$names m_${kind}_layers"; }
    ((gpus >= 2)) && [[ $kind == gpt ]] && run_mesh m_${kind}_hsdp12 2 "--mesh.shape=[1,2]" "--mesh.dim_names=[dp_replicate,dp_shard]" --mesh.reshard_after_forward=false
    compare equal $names
  done
  train m_gpt_fp32_1 1 $m --train.precision=fp32
  if ((gpus >= 2)); then
    # With tp results agree within rounding; with tp fixed, data dims change no bit.
    fresh m_tp2 m_tp2_again m_tp2_dp2 m_tp2_shard2
    train m_tp2 2 $m --train.precision=fp32 "--mesh.dim_names=[tp]"; train m_tp2_again 2 $m --train.precision=fp32 "--mesh.dim_names=[tp]"
    compare equal m_tp2 m_tp2_again
    compare close m_gpt_fp32_1 m_tp2
  fi
  if ((gpus >= 4)); then
    train m_tp2_dp2 4 $m --train.precision=fp32 "--mesh.shape=[2,2]" "--mesh.dim_names=[dp_replicate,tp]"
    train m_tp2_shard2 4 $m --train.precision=fp32 "--mesh.shape=[2,2]" "--mesh.dim_names=[dp_shard,tp]"
    compare equal m_tp2 m_tp2_dp2 m_tp2_shard2
    train m_gpt_fp32_zero3_4 4 $m --train.precision=fp32 "--mesh.dim_names=[dp_shard]"
    compare equal m_gpt_fp32_1 m_gpt_fp32_zero3_4
  fi
fi
if wants cross; then
  # Recomputation changes no bit, nor do activations on the host; the CPU resumes sharded checkpoints, and the GPU resumes its; a recorded step is replayed.
  n=$((gpus >= 2 ? 2 : 1)) z="--mesh.dim_names=[dp_shard]" x="--train.steps=12 --checkpoint.every=6 --train.eval_every=0"
  fresh x_{all,full,away,to_cpu,to_gpu}
  train x_all $n $x $z; train x_full $n $x $z --compile.memory_budget=full
  budget=$("$bin/trainrun" plan --json --nproc $n "$config" $x $z | python3 -c 'import json, sys; print(json.load(sys.stdin)["memory"]["arena"] * 3 // 4)')
  train x_away $n $x $z --compile.memory_budget=$budget --compile.offload_activations=true
  grep -q "activations wait on the host" "$work/x_away.log" runs/x_away/* 2> /dev/null || fail "x_away copied nothing within $budget bytes"
  compare equal x_all x_full x_away
  train x_to_cpu $n $x $z --train.steps=6; train x_to_cpu 1 $x --train.device=cpu
  train x_to_gpu 2 $x $z --train.device=cpu --train.steps=6; train x_to_gpu $n $x $z --mesh.zero=1
  compare close x_all x_to_cpu x_to_gpu
  timeout 60 "$bin/trainrun" replay x_all --step 9 --nproc 1 > "$work/replay.log" 2>&1 && { echo "PASS replay:"; tail -n 4 "$work/replay.log"; } || fail "replay: $(tail -n 4 "$work/replay.log")"
fi
if wants llama; then
  n=$((gpus < 4 ? gpus : 4))
  fresh c_llama_{1,n,cpu,gpu}
  l="--model.kind=llama --model.kv_heads=2 --model.hidden=512"
  train c_llama_1 1 $l --train.precision=bf16; train c_llama_n $n $l --train.precision=bf16; compare equal c_llama_1 c_llama_n
  train c_llama_cpu 1 $l --train.device=cpu; train c_llama_gpu 1 $l; compare close c_llama_cpu c_llama_gpu
fi
if wants sparse; then
  # A click model with four sparse tables: its kernels alone, one set of bits on 1, 2 and 4 GPUs, resumed, captured or not; the CPU within rounding.
  if ! wants units; then
    timeout 200 "$bin/gpu_table_rows_test" > "$work/table_rows.log" 2>&1 && echo "PASS gpu_table_rows_test" || { tail -n 5 "$work/table_rows.log"; fail "gpu_table_rows_test"; }
  fi
  if command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck; do
      timeout 100 compute-sanitizer --tool $tool --error-exitcode 9 "$bin/gpu_table_rows_test" --gtest_filter='*stray*:*graph*:*gate*' > "$work/$tool.log" 2>&1 && echo "PASS $tool: $(tail -n 1 "$work/$tool.log")" || fail "$tool: $(tail -n 2 "$work/$tool.log")"
    done
  fi
  python3 tests/gpu/make_clicks.py "$work/clicks"
  config=$work/clicks/clicks.json two=$((gpus < 2 ? gpus : 2)) four=$((gpus < 4 ? gpus : 4)) s="--mesh.dim_names=[dp_shard]"
  for o in sparse_adam rowwise_adagrad adagrad sgd; do for p in fp32 bf16; do
    [[ $p == bf16 && ($o == adagrad || $o == sgd) ]] && continue
    k="--optim.kind=$o --train.precision=$p" r=s_${o}_$p
    [[ $o == sgd || $o == adagrad ]] && k="$k --optim.weight_decay=0"  # decay would change every row
    fresh ${r}_{1,2,4,zero1,zero2,resume,cpu}
    train ${r}_1 1 $k; train ${r}_2 $two $k; train ${r}_4 $four $k; train ${r}_zero1 $two $k $s --mesh.zero=1; train ${r}_zero2 $four $k $s --mesh.zero=2
    train ${r}_resume $two $k --train.steps=15; train ${r}_resume 1 $k
    compare equal ${r}_1 ${r}_2 ${r}_4 ${r}_zero1 ${r}_zero2 ${r}_resume
    [[ $p == fp32 ]] && { train ${r}_cpu 1 $k --train.device=cpu; compare close ${r}_1 ${r}_cpu; }
  done; done
  fresh s_uncaptured s_again s_zero3
  LOCKSTEP_LOGS=plan train s_again 1; grep -q "captured program" "$work/s_again.log" || fail "s_again: the step was not captured"
  train s_uncaptured 1 --compile.capture=false; compare equal s_sparse_adam_fp32_1 s_again s_uncaptured
  if ((there >= 2)); then  # rows split over GPUs are refused
    timeout 60 "$bin/trainrun" --nproc 2 "$config" --name=s_zero3 "$s" --mesh.zero=3 > "$work/s_zero3.log" 2>&1; code=$?
    ((code == 2)) && grep -q "which only the CPU can do" "$work/s_zero3.log" && echo "PASS split tables are refused" || fail "split tables: code $code: $(tail -n 3 "$work/s_zero3.log")"
  fi
  # 24,576 ids of a table: more than one block sorts.
  b="--batch.global=24576 --batch.micro=4096 --train.steps=8"
  fresh s_big_{1,2,cpu}
  train s_big_1 1 $b; train s_big_2 $two $b; compare equal s_big_1 s_big_2; train s_big_cpu 1 $b --train.device=cpu; compare close s_big_1 s_big_cpu
  config=$work/small.json
fi
if wants golden; then
  python3 - "$work/golden.json" <<'CONFIG'
import json, sys
g = json.load(open("tests/golden/gpt/golden.json"))
json.dump({"name": "golden", "model": g["model"], "data": {"kind": "tokens", "paths": ["tests/golden/gpt/tokens.bin"], "order": "sequential"},
           "batch": {"global": g["global_batch"], "micro": 2}, "train": {"steps": len(g["steps"]), "device": "cuda"},
           "optim": dict(g["optim"], kind="adamw"), "log": {"every": 1}}, open(sys.argv[1], "w"))
CONFIG
  for ranks in 1 4; do
    ((ranks <= gpus)) || continue
    fresh c_golden_$ranks
    timeout 60 "$bin/trainrun" --nproc $ranks "$work/golden.json" --name=c_golden_$ranks --init_from=tests/golden/gpt/init.safetensors > "$work/golden.log" 2>&1
    compare golden c_golden_$ranks
  done
fi
if wants lost; then
  # A rank that dies inside the captured step: everything ends in seconds, the cause is named, the same command goes on.
  fresh c_lost
  "$bin/trainrun" --nproc 2 "$work/small.json" --name=c_lost --train.steps=4000 --log.every=100 --train.eval_every=0 --checkpoint.every=20 > "$work/lost.log" 2>&1 &
  run=$!
  for _ in $(seq 200); do [[ -d runs/c_lost/ckpt/step-40 ]] && break; sleep 0.1; done
  victim=$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' runs/c_lost/logs/attempt-*/worker-1.json | tail -n 1)
  begin=$(date +%s%N); kill -9 "$victim"; wait $run; code=$?
  took=$(( ($(date +%s%N) - begin) / 1000000 ))
  cause=$(grep -m 1 "root cause" "$work/lost.log")
  [[ $code == 75 && -n "$cause" ]] && ((took < 20000)) && echo "PASS lost: ended after $took ms with exit code 75; $cause" || fail "lost: code $code after $took ms: $cause $(tail -n 2 "$work/lost.log")"
fi
if wants plan; then
  "$bin/trainrun" plan --long configs/gpt2_124m.json > "$work/plan.log" 2>&1 && grep -E "arena|certificate|fits|together|^  *[0-9a-f]{16,}" "$work/plan.log" || fail "plan"
  "$bin/trainrun" configs/gpt2_1558m.json --name=c_large --batch.global=512 --batch.micro=256 > "$work/large.log" 2>&1
  [[ $? == 2 ]] && { echo "PASS too large is refused before it starts:"; cat "$work/large.log"; } || fail "too large: $(tail -n 3 "$work/large.log")"
fi
echo "$failures failures; logs in $work"
exit $failures
