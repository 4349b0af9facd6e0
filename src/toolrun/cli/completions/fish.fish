# Completion of toolrun for fish. Put this into ~/.config/fish/config.fish:  toolrun completion fish | source
function _toolrun_completion
    set -l line (commandline -cp)
    for found in (env _TOOLRUN_LINE="$line" toolrun 2>/dev/null)
        set -l parts (string split \t -- $found)
        switch $parts[1]
            case plain
                printf '%s\t%s\n' $parts[2] $parts[3]
            case file dir
                __fish_complete_path (commandline -ct)
        end
    end
end
complete -c toolrun -f -a '(_toolrun_completion)'
