# Completion of toolrun for fish. Put this into ~/.config/fish/config.fish:  toolrun completion fish | source
function _toolrun_completion
    set -l line (commandline -cp)
    set -l word (commandline -ct)
    # toolrun offers the value of an option without its name, and fish wants the whole word.
    set -l name (string match -r -- '^-[^=]*=' $word)
    set -l value (string replace -- "$name" '' $word)
    # Without its quotes and backslashes, also if a quote is still open.
    set -l path (string unescape -- $value; or string unescape -- $value'"'; or string unescape -- $value"'")
    for found in (env _TOOLRUN_LINE="$line" toolrun 2>/dev/null)
        set -l parts (string split \t -- $found)
        switch $parts[1]
            case plain
                printf '%s\t%s\n' "$name$parts[2]" $parts[3]
            case file
                printf "$name%s\n" (__fish_complete_path "$path")
            case dir
                printf "$name%s\n" (__fish_complete_directories "$path")
        end
    end
end
complete -c toolrun -f -a '(_toolrun_completion)'
