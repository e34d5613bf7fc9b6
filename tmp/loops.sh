#!/bin/bash
cd /work/wt/me
for i in $(seq 1 12); do
  VM_SUITE=trixie VM_CPUS=2 VM_TIMEOUT=480 timeout 500 setsid -w /work/shared/vm/vm-run.sh 1 tmp/loop.sh tmp/share > tmp/loop.$i.log 2>&1 &
  p=$!
  while kill -0 $p 2>/dev/null; do sleep 5; if grep -q "not syncing" tmp/loop.$i.log; then break; fi; done
  wait $p
  echo "$i $(date +%T) rc $? boots $(grep -c 'after reboot' tmp/loop.$i.log) fault $(grep -c '== FAULT' tmp/loop.$i.log) panic $(grep -c 'not syncing' tmp/loop.$i.log)" >> tmp/loops.txt
  grep -q "== FAULT" tmp/loop.$i.log && break
done
echo end >> tmp/loops.txt
