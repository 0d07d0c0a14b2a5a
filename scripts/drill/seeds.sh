# Sourced by the drills that run one ignored test of tests/redis for each of many seeds.

# Builds the gateway, unless TOLLGATE names one, and the tests.
build() {
    if [[ -z ${TOLLGATE:-} ]]; then
        cargo build --release --locked --quiet || exit
        TOLLGATE=$(realpath "${CARGO_TARGET_DIR:-target}")/release/tollgate
    fi
    export TOLLGATE
    cargo test --locked --quiet --test redis --no-run || exit
}

# try_seeds TEST FIRST LAST: prints what the test says of each seed and keeps it in $log.all; `verdict` has those that fail.
try_seeds() {
    local test=$1 seed
    first=$2 last=$3 failed=()
    log=$(mktemp)
    trap 'rm -f "$log" "$log.all"' EXIT
    : >"$log.all"
    for ((seed = first; seed <= last; seed++)); do
        if SEED=$seed cargo test --locked --quiet --test redis -- --ignored --nocapture --exact "$test" >"$log" 2>&1; then
            grep '^seed' "$log" | tee -a "$log.all"
        else
            failed+=("$seed")
            grep -vE '^ +[0-9]+: | at ' "$log"
        fi
    done
}

# Prints which seeds fail; false if any does.
verdict() {
    echo "verdict: ${#failed[@]} of $((last - first + 1)) seeds fail: ${failed[*]:-none}"
    ((${#failed[@]} == 0))
}
