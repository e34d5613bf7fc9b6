# Completion of Cosy's commands: asks the program itself, and with it the cluster.
_cosy() {
    local -a lines values shown open
    local line
    lines=("${(@f)$(cosy __complete zsh -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    case $lines[1] in
        files) compset -P '--*='; _files ;;
        folders) compset -P '--*='; _files -/ ;;
        programs) compset -P '--*='; _command_names -e ;;
        users) compset -P '*[=,]'; _users ;;
        names)
            for line in "${(@)lines[2,-1]}"; do
                if [[ ${line%%$'\t'*} == *= ]]; then
                    open+=("${line%%$'\t'*}")
                else
                    values+=("${line%%$'\t'*}")
                    shown+=("${line/$'\t'/  -- }")
                fi
            done
            (( $#open )) && compadd -S '' -a open
            (( $#values )) && compadd -l -V cosy -d shown -a values ;;
    esac
}
