# Completion of Cosy's commands: asks the program itself, and with it the cluster.
function __cosy_complete
    set -l token (commandline -ct)
    set -l lines (cosy __complete fish -- (commandline -opc) "$token" 2>/dev/null)
    set -l begun (string replace -r '^--[^=]*=' '' -- "$token")
    set -l option (string match -r -- '^--[^=]*=' "$token")
    switch "$lines[1]"
        case files
            for found in (__fish_complete_path "$begun")
                echo "$option$found"
            end
        case folders
            for found in (__fish_complete_directories "$begun")
                echo "$option$found"
            end
        case programs
            __fish_complete_command
        case users
            for found in (__fish_complete_users)
                echo "$option$found"
            end
        case names
            for line in $lines[2..]
                echo $line
            end
    end
end
