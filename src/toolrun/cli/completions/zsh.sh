# Completion of toolrun for zsh. Put this into ~/.zshrc, after compinit:  eval "$(toolrun completion zsh)"
_toolrun_completion() {
    local kind value help line="${(j: :)words[1,CURRENT-1]} ${words[CURRENT]}"
    local -a done done_shown open
    [[ $PREFIX == -*=* ]] && compset -P '*='  # toolrun offers the value of an option without its name
    while IFS=$'\t' read -r kind value help; do
        case "$kind" in
            plain)
                if [[ "$value" == *[=/] ]]; then
                    open+=("$value")
                else
                    done+=("$value")
                    done_shown+=("$value${help:+  -- $help}")
                fi
                ;;
            file) _files ;;
            dir) _files -/ ;;
        esac
    done < <(_TOOLRUN_LINE="$line" "${words[1]}" 2>/dev/null)
    (( ${#open} )) && compadd -Q -S '' -a open
    (( ${#done} )) && compadd -Q -l -d done_shown -a done
    return 0
}
compdef _toolrun_completion toolrun
