#!/usr/bin/env bash
# Starts a run and waits for the answer to that, with nothing but kcat.
#
#   kcat.sh BROKERS PREFIX AGENT SESSION MESSAGE [ID]
#
# ID names the request: sent again, it has no further effect. Texts must need no escapes in JSON.
set -euo pipefail

if (($# < 5)); then
    echo "usage: $0 BROKERS PREFIX AGENT SESSION MESSAGE [ID]" >&2
    exit 2
fi
brokers=$1 prefix=$2 agent=$3 session=$4 message=$5
correlation=$(cat /proc/sys/kernel/random/uuid 2>/dev/null || uuidgen)
id=${6:-$correlation}

# The answers are read from a moment before the question, however the clocks of here and there go.
from=$(($(date +%s) * 1000 - 60000))

# kcat's own partitioner is CRC32, Java's and the runtime's is murmur2: the command mostly goes to a partition
# that is not its session's, and the runtime passes it on.
printf '{"type":"StartRun","id":"%s","session_id":"%s","agent_id":"%s","message":"%s","reply_to":{"correlation_id":"%s"}}\n' \
    "$id" "$session" "$agent" "$message" "$correlation" |
    kcat -P -q -b "$brokers" -t "$prefix.commands" -k "$session" -X enable.idempotence=true

# `grep` ends at the first answer that is ours, which ends kcat. `timeout` ends it when there is none.
exec 3< <(timeout 60 kcat -C -q -u -b "$brokers" -t "$prefix.replies" -o "s@$from" -X isolation.level=read_committed)
reader=$!
answer=$(grep --max-count=1 --fixed-strings "\"correlation_id\":\"$correlation\"" <&3) || {
    echo "no answer within 60 s: does a node serve the prefix \`$prefix\`?" >&2
    exit 1
}
kill "$reader" 2>/dev/null || true
echo "$answer"
