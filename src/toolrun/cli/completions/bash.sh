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
            plain) COMPREPLY+=("${value#"$prefix"}") ;;
            file) compopt -o default 2>/dev/null ;; # what readline itself knows of files: blanks, quotes, ~
            dir) compopt -o dirnames 2>/dev/null ;;
        esac
    done < <(_TOOLRUN_LINE="$line" "$1" 2>/dev/null)
    # A value follows, so no blank.
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _toolrun_completion toolrun
