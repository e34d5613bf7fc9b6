//! The scripts that shells read: each hands the command line to `cosy __complete`.

use clap_complete::Shell;

const BASH: &str = include_str!("shell_scripts/bash.sh");
const ZSH: &str = include_str!("shell_scripts/zsh.sh");
const FISH: &str = include_str!("shell_scripts/fish.fish");

/// The shells that there are scripts for.
pub const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// The script that sets up the completion of these commands, to be read with `source`.
pub fn sourced(shell: Shell, commands: &[&str]) -> String {
    let all = commands.join(" ");
    match shell {
        Shell::Zsh => format!("{ZSH}compdef _cosy {all}\n"),
        Shell::Fish => {
            let line = |name: &&str| format!("complete -c {name} -f -k -a '(__cosy_complete)'\n");
            format!("{FISH}{}", commands.iter().map(line).collect::<String>())
        }
        _ => format!(
            "{BASH}complete -o nosort -F _cosy {all} 2>/dev/null || complete -F _cosy {all}\n"
        ),
    }
}

/// The files that a shell finds by itself, by name, and what is in them.
pub fn files(shell: Shell, commands: &[&str]) -> Vec<(String, String)> {
    let of = |name: &&str| sourced(shell, &[name]);
    match shell {
        // One file for all: it is named after its function.
        Shell::Zsh => {
            let text = format!("#compdef {}\n{ZSH}_cosy \"$@\"\n", commands.join(" "));
            vec![("_cosy".to_owned(), text)]
        }
        Shell::Fish => commands
            .iter()
            .map(|n| (format!("{n}.fish"), of(n)))
            .collect(),
        _ => commands
            .iter()
            .map(|n| (format!("{n}.bash"), of(n)))
            .collect(),
    }
}

/// The same for Slurm's names, which are installed where there is no other Slurm.
pub fn slurm_files(shell: Shell, commands: &[&str]) -> Vec<(String, String)> {
    match shell {
        Shell::Zsh => {
            let names = commands.join(" ");
            let text = format!("#compdef {names}\nautoload -Uz _cosy\n_cosy \"$@\"\n");
            vec![("_cosy_slurm".to_owned(), text)]
        }
        _ => files(shell, commands),
    }
}
