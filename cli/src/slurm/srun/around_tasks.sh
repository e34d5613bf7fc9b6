p=$1; e=$2; shift 2
complain() { echo "slurmstepd: error: $*" >&2; }
unusable() {
  complain "run_command: user task_prolog $1"
  complain "user task_prolog did not exit normally. reason: Run command failed - configuration error"
  complain "--task-prolog failed status=1"
  exit 1
}
if [ -n "$p" ]; then
  case $p in
    /*) ;;
    *) unusable "is not fully qualified pathname ($p)" ;;
  esac
  [ -e "$p" ] || unusable "can not be executed ($p) No such file or directory"
  [ -x "$p" ] || unusable "can not be executed ($p) Permission denied"
  said=$("$p")
  code=$?
  if [ $code -ne 0 ]; then
    complain "--task-prolog failed status=$code"
    exit $code
  fi
  while IFS= read -r line; do
    case $line in
      "export "*) export "${line#export }" ;;
      "unset "*) unset "${line#unset }" ;;
      "print "*) printf '%s\n' "${line#print }" ;;
    esac
  done <<END
$said
END
fi
[ -n "$e" ] || exec "$@"
"$@"
code=$?
if [ ! -x "$e" ]; then
  complain "Could not run user task_epilog [$e]: access denied"
  complain "TaskEpilog failed status=-1"
  exit $code
fi
exec 3>&2
# The inner shell would tell of the kill.
(timeout -s KILL 5 "$e" 2>&3 3>&-) 2>/dev/null
status=$?
case $status in
  0) ;;
  137) complain "TaskEpilog failed status=9" ;;
  *) complain "TaskEpilog failed status=$((status * 256))" ;;
esac
exit $code
