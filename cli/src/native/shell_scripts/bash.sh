# Completion of Cosy's commands: asks the program itself, and with it the cluster.
_cosy() {
    local lines line
    COMPREPLY=()
    mapfile -t lines < <(cosy __complete bash "$2" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    case ${lines[0]-} in
        files) compopt -o default 2>/dev/null ;;
        folders) compopt -o dirnames -o filenames 2>/dev/null ;;
        programs)
            case $2 in
                */*) compopt -o default 2>/dev/null ;;
                *) mapfile -t COMPREPLY < <(compgen -c -- "$2" | head -n 500 | sort -u) ;;
            esac ;;
        users) mapfile -t COMPREPLY < <(compgen -u -- "$2" | head -n 500) ;;
        names)
            for line in "${lines[@]:1}"; do
                COMPREPLY+=("${line%%$'\t'*}")
            done
            [[ ${COMPREPLY-} != *= ]] || compopt -o nospace 2>/dev/null ;;
    esac
}
