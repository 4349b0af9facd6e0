# Completion of toolrun for bash. Put this into ~/.bashrc:  eval "$(toolrun completion bash)"
_toolrun_completion() {
    local line="${COMP_LINE:0:COMP_POINT}" kind value help word prefix=""
    COMPREPLY=()
    word="${line##*[[:space:]]}"
    # bash takes = and : for the end of a word, and replaces only what comes after it.
    if [[ $word == *[=:]* ]]; then
        prefix="${word%"${word##*[=:]}"}"
    fi
    while IFS=$'\t' read -r kind value help; do
        case "$kind" in
            plain)
                [[ $value == *[=/] ]] || value="$value "
                COMPREPLY+=("${value#"$prefix"}")
                ;;
            file | dir)
                compopt -o filenames +o nospace 2>/dev/null
                COMPREPLY+=($(compgen -f -- "$word"))
                ;;
        esac
    done < <(_TOOLRUN_LINE="$line" "$1" 2>/dev/null)
}
complete -o nospace -F _toolrun_completion toolrun
