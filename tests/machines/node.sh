#!/bin/bash
# One real machine, systemd as PID 1 and control groups of version 2: jobs and the life of noded.
#
# Runs as root on a machine that may be thrown away, and installs on it what is in the folder
# given (/share without): programs in bin/, units in systemd/. Exit code 0: all is well; 1: some
# check has failed; 194: to be run again after the reboot that it asks for (VM_BOOT counts from 1).
set -u
share=${1:-/share}
units=/etc/systemd/system
log=/var/lib/machine-test
jobs=/sys/fs/cgroup/cosy.slice/cosy-jobs.service
export PATH=/usr/local/bin:$PATH
failed=$log.failed

check() { # NAME COMMAND...
  local name=$1; shift
  if "$@" >/dev/null 2>&1; then echo "ok      $name"; else echo "FAILED  $name"; echo "$name" >>"$failed"; fi
}
until_true() { # SECONDS COMMAND...: asks again and again
  local end=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.3; done
}
state() { cstat --json "$1" 2>/dev/null | grep -o '"state": *"[a-z_]*"' | head -1 | cut -d'"' -f4; }
is() { [ "$(state "$1")" = "$2" ]; }
ended() { chist --json "$1" 2>/dev/null | grep -o '"state": *"[a-z_]*"' | head -1 | cut -d'"' -f4; }
has_ended() { [ "$(ended "$1")" = "$2" ]; }
submit() { (cd /home/ann && runuser -u ann -- csub --parsable -t 1h "$@"); }
lines() { wc -l <"/home/ann/beat.$1" 2>/dev/null || echo 0; }
more_than() { [ "$(lines "$1")" -gt "$2" ]; }
beats() { until_true 20 more_than "$1" "$(lines "$1")"; } # NAME: that program still writes
stands_still() { local n; n=$(lines "$1"); sleep 3; ! more_than "$1" "$n"; }
alone_in_its_unit() { [ "$(wc -l </sys/fs/cgroup/system.slice/noded.service/cgroup.procs)" = 1 ]; }
group() { cat "$jobs"/*/"$1".1/"$2" 2>/dev/null; }

install_all() {
  install -m 755 "$share"/bin/* /usr/local/bin/
  for n in csub scontrol cstat ccancel chist cadm; do ln -sf cosy /usr/local/bin/$n; done
  cp "$share"/systemd/*.service "$share"/systemd/*.slice $units/
  useradd -r cosy 2>/dev/null; useradd -m -u 2001 ann 2>/dev/null; useradd -m -u 2002 bob 2>/dev/null
  # Not again after the reboot: then a job may be starting it.
  cat >/usr/local/bin/beat <<'J'
#!/bin/bash
trap 'echo term; exit 0' TERM
while :; do echo x >>/home/ann/beat.$1; sleep 0.5; done
J
  chmod 755 /usr/local/bin/beat
  mkdir -p /etc/cosy
  cat >/etc/cosy/cosy.toml <<'C'
[cluster]
name = "m"
[controller]
state_dir = "/var/lib/cosy"
socket = "/run/cosy/cosyd.sock"
listen = "127.0.0.1:7817"
[policy]
node_timeout = "600s"
[[node]]
names = "node1"
[[queue]]
name = "q"
default = true
nodes = "node1"
[queue.access]
C
  cosyd --check --config /etc/cosy/cosy.toml || exit 1
  systemctl daemon-reload
  systemctl enable -q --now cosyd || { journalctl -u cosyd --no-pager | tail; exit 1; }
  cadm node token node1 >/run/token.all 2>&1
  grep -oE '[A-Za-z0-9_.:-]{40,}' /run/token.all | head -1 >/run/token
  (umask 077; noded join --controller 127.0.0.1:7817 --name node1 --token-file /run/token) || { cat /run/token.all; exit 1; }
  printf 'cores = 2\n' >>/etc/cosy/noded.toml
  printf '[[device]]\nname = "full"\nfiles = ["/dev/full"]\n' >>/etc/cosy/noded.toml
  noded --check || sed -i '/^\[\[device\]\]/,$d' /etc/cosy/noded.toml
  systemctl enable -q --now noded || { journalctl -u noded --no-pager | tail; exit 1; }
}

life_of_noded() {
  local a; a=$(submit -c 1 --mem 100M -- /usr/local/bin/beat a)
  check "a job runs" until_true 60 is "$a" running
  check "its program runs" until_true 30 test -s /home/ann/beat.a
  check "it lives in the unit of the jobs" test -d "$jobs"/*/"$a".1
  check "nothing of jobs lives in noded's unit" alone_in_its_unit
  systemctl restart noded
  check "restart: noded is active" until_true 30 systemctl is-active noded
  check "restart: the program goes on" beats a
  systemctl kill -s KILL noded
  check "kill -9: noded comes back" until_true 60 systemctl is-active noded
  check "kill -9: the program goes on" beats a
  systemctl kill -s ABRT --kill-who=main noded
  check "watchdog's signal: noded comes back" until_true 60 systemctl is-active noded
  check "watchdog's signal: the program goes on" beats a
  systemctl stop noded
  check "stop: the program goes on" beats a
  cp /usr/local/bin/noded /usr/local/bin/noded.new && mv /usr/local/bin/noded.new /usr/local/bin/noded
  systemctl daemon-reload; systemctl start noded
  check "upgrade: the program goes on" beats a
  systemctl daemon-reexec
  check "daemon-reexec: the program goes on" beats a
  check "cosy-jobs cannot be stopped by mistake" sh -c '! systemctl stop cosy-jobs'
  xargs kill -9 <$jobs/hold/cgroup.procs
  systemctl restart noded
  check "without the holding process: noded is active" until_true 30 systemctl is-active noded
  check "without it the program goes on" beats a
  check "it is still the first attempt" is "$a" running
  ccancel "$a"
  check "it is cancelled" until_true 60 has_ended "$a" cancelled
  check "its groups are gone" until_true 20 sh -c "! ls -d $jobs/*/$a.1"
}

limits() {
  local b
  b=$(submit -c 1 --mem 64M -o /home/ann/shown -- /bin/sh -c 'grep Cpus_allowed_list /proc/self/status; cat /proc/self/cgroup; sleep 1000')
  check "limits: it runs" until_true 60 test -s /home/ann/shown
  check "cpuset: one processor" grep -qE 'Cpus_allowed_list:\s+[0-9]+$' /home/ann/shown
  check "born in the group of the batch program" grep -q "/cosy.slice/cosy-jobs.service/.*/$b.1/batch" /home/ann/shown
  check "memory.max" test "$(group "$b" memory.max)" = 67108864
  check "memory.swap.max" test "$(group "$b" memory.swap.max)" = 0
  if (($(nproc) > 1)); then
    check "cpuset.cpus" test -n "$(group "$b" cpuset.cpus)"
  else
    echo "skipped cpuset.cpus: who has the only processor is bound to none"
  fi
  check "pids.max" test "$(group "$b" pids.max)" = 4608
  check "no process of systemd's or ours in between" test -z "$(cat $jobs/cgroup.procs)"
  # Nothing escapes: another session, forked twice, deaf to SIGTERM.
  ccancel "$b"; until_true 60 has_ended "$b" cancelled
  b=$(submit -c 1 --mem 64M -- /bin/sh -c 'setsid sh -c "trap \"\" TERM HUP; sleep 4242" & sleep 1; exit 3')
  check "a program that ends leaves nothing" until_true 90 has_ended "$b" failed
  check "what it left is killed" sh -c '! pgrep -f "[s]leep 4242"'
  b=$(submit -c 1 --mem 64M -- python3 -c 'b = b"x" * (300 << 20); print("not killed")')
  check "want of memory is told" until_true 120 has_ended "$b" out_of_memory
  b=$(submit -c 1 --mem 256M -- python3 -c $'b = b"x" * (80 << 20)\nfor i in range(3000000): pass')
  check "accounting: it ends" until_true 120 has_ended "$b" completed
  echo "        $(chist --json "$b" | grep -oE '"(peak_memory|user_cpu|system_cpu)[a-z_]*": *[^,]*' | tr '\n' ' ')"
  check "accounting: memory" sh -c "chist --json $b | grep -oE '\"peak_memory[a-z_]*\": *\"?[0-9]+' | grep -oE '[0-9]+$' | awk '{exit !(\$1 > 70)}'"
  b=$(submit -c 1 -- /usr/local/bin/beat s)
  until_true 60 test -s /home/ann/beat.s
  scontrol suspend "$b"
  check "suspended" until_true 30 is "$b" suspended
  check "suspended: the program stands still" stands_still s
  scontrol resume "$b"
  check "resumed: the program goes on" beats s
  ccancel "$b"; until_true 60 has_ended "$b" cancelled
  b=$(submit -c 1 --mem 64M -- /bin/sh -c 'cosy run -n 1 sh -c "cat /proc/self/cgroup" > /home/ann/step')
  check "a step" until_true 90 has_ended "$b" completed
  check "a step is in a group of its own" grep -q "/$b.1/s\." /home/ann/step
  b=$(submit -c 1 -o /home/ann/device -- /bin/sh -c 'head -c 1 /dev/full | wc -c; head -c 1 /dev/zero | wc -c')
  until_true 60 has_ended "$b" completed
  check "a device that it did not ask for" sh -c "grep -xE '[01]' /home/ann/device | tr -d '\n' | grep -x 01"
}

# Asks the page, as the user of the token: METHOD PATH [HEADER]; gives what comes within some seconds.
page() {
  timeout "${PATIENCE:-10}" bash -c 'exec 3<>/dev/tcp/127.0.0.1/8090
    printf "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n%s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" "$@" >&3; cat <&3' \
    page "$1" "$2" "${HOST:-page}" "$token" "${3:-X-None: 1}"
}
page_says() { page "${@:2}" | grep -q "$1"; } # WORDS METHOD PATH [HEADER]

the_page() {
  local job shell link host
  useradd -r cosy-web 2>/dev/null
  install -m 644 "$share/web.toml" /etc/cosy/web.toml
  printf '[web]\nuser = "cosy-web"\n' >>/etc/cosy/cosy.toml
  cadm reload
  systemctl enable -q --now cosy-web || journalctl -u cosy-web --no-pager | tail
  check "the page: its unit is active" until_true 30 systemctl is-active cosy-web
  token=$(runuser -u ann -- cosy token)
  check "the page: it knows who asks" page_says '"user":"ann"' GET /api/v1/me
  cat >/usr/local/bin/says <<'P'
#!/usr/bin/env python3
import socket
print("from the job", flush=True)
server = socket.create_server(("127.0.0.1", 8123))
while True:
    client = server.accept()[0]
    client.recv(9999)
    client.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nfrom the program\n")
    client.close()
P
  chmod 755 /usr/local/bin/says
  job=$(submit -c 1 -o /home/ann/private -- /usr/local/bin/says)
  check "the page: a job runs" until_true 60 is "$job" running
  until_true 30 test -s /home/ann/private; chmod 600 /home/ann/private
  check "the page: what it writes" until_true 30 page_says "from the job" GET "/api/v1/jobs/$job/output"
  check "the page: on which port it listens" until_true 60 page_says 8123 GET "/api/v1/jobs/$job/ports"
  link=$(page POST "/api/v1/jobs/$job/ports/8123" | grep -o '/.cosy/enter?ticket=[0-9a-f]*')
  host=j$job-8123.localhost:8090
  link=$(HOST=$host page GET "$link" | grep -io 'cosy-app=[0-9a-f]*')
  check "the page: the program itself" env HOST="$host" bash -c "$(declare -f page page_says); token=none; page_says 'from the program' GET / 'Cookie: $link'"
  shell=$(page POST "/api/v1/jobs/$job/shells" | grep -o '"id":"[0-9a-f]*' | cut -d'"' -f4)
  check "the page: a shell" until_true 30 page_says '\["[$]' GET "/api/v1/shells/$shell/screen"
  ccancel "$job"; until_true 60 has_ended "$job" cancelled
  check "the page: what it wrote, afterwards" until_true 30 page_says "from the job" GET "/api/v1/jobs/$job/output"
  systemd-analyze security cosy-web --no-pager | grep -i overall
}

set_clock() { date -s "@$(($(date +%s) + $1))" >/dev/null; } # SECONDS: forward, or back
steps_of_clock() { cadm events 2>/dev/null | grep -c "clock.*set.* by"; }
steps_are() { [ "$(steps_of_clock)" = "$1" ]; }

clocks() {
  local a b by steps=0
  timedatectl set-ntp false 2>/dev/null
  a=$(submit -c 1 --no-requeue -- /usr/local/bin/beat k)
  check "clocks: a job runs" until_true 60 is "$a" running
  for by in 3600 -7200 3600; do
    set_clock $by; steps=$((steps + 1))
    check "clock set by $by s: it is said" until_true 30 steps_are $steps
    check "clock set by $by s: the program goes on" beats k
    check "clock set by $by s: the node takes jobs" until_true 60 sh -c 'cstat nodes | grep -qE "idle|mixed"'
    b=$(submit -c 1 -- /bin/sleep 2)
    check "clock set by $by s: another begins and ends" until_true 90 has_ended "$b" completed
    check "clock set by $by s: the first runs" is "$a" running
  done
  ccancel "$a"; until_true 60 has_ended "$a" cancelled
}

if [ "${VM_BOOT:-1}" = 1 ]; then
  systemctl --version | head -1; rm -f "$failed"
  install_all
  check "noded is active" until_true 30 systemctl is-active noded
  check "the node is there" until_true 60 sh -c 'cstat nodes | grep -q idle'
  journalctl -u noded --no-pager -o cat | grep -i warn
  life_of_noded
  limits
  the_page
  clocks
  systemd-analyze security noded cosyd --no-pager 2>/dev/null | grep -i overall
  systemd-analyze security noded --no-pager | grep overall; systemd-analyze security cosyd --no-pager | grep overall
  a=$(submit -c 1 -- /usr/local/bin/beat r); b=$(submit -c 1 --no-requeue -- /usr/local/bin/beat n)
  check "before the reboot both run" until_true 60 sh -c "test -s /home/ann/beat.r -a -s /home/ann/beat.n"
  echo "$a $b" >$log.ids
  sync; exit 194
fi

read -r a b <$log.ids
echo "== after a reboot"
journalctl -b -1 -u noded -u cosy-jobs --no-pager -o cat | tail -8
check "noded is active" until_true 60 systemctl is-active noded
check "the job runs again" until_true 120 is "$a" running
check "the other one is node_failed" until_true 60 has_ended "$b" node_failed
check "its program runs" beats r
chist "$b"; cadm events 2>/dev/null | tail -12
[ ! -e "$failed" ] || { echo "failed:"; cat "$failed"; journalctl -b -u noded --no-pager -o cat | tail -20; exit 1; }
echo "all is well"
