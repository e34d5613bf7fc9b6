//! The scripts that shells read: each hands the command line to `cosy __complete`.

const BASH: &str = include_str!("shell_scripts/bash.sh");
const ZSH: &str = include_str!("shell_scripts/zsh.sh");
const FISH: &str = include_str!("shell_scripts/fish.fish");

/// A shell that there is a script for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shell {
    /// Bash, from 4 on.
    Bash,
    /// Zsh with its completion system.
    Zsh,
    /// Fish, from 3 on.
    Fish,
}

impl Shell {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }
}

/// The script that sets up the completion of these commands, to be read with `source`.
pub fn sourced(shell: Shell, commands: &[&str]) -> String {
    let all = commands.join(" ");
    match shell {
        Shell::Zsh => format!("{ZSH}compdef _cosy {all}\n"),
        Shell::Fish => {
            let line = |name: &&str| format!("complete -c {name} -f -k -a '(__cosy_complete)'\n");
            format!("{FISH}{}", commands.iter().map(line).collect::<String>())
        }
        Shell::Bash => format!(
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
        Shell::Bash => commands
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
        Shell::Bash | Shell::Fish => files(shell, commands),
    }
}
