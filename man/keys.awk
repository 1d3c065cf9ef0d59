# SPDX-License-Identifier: MIT
# keys.awk - the KEYS section of weir-policy(5), from the man(7) macros that policy/generate writes to the mdoc(7) of the page around it.
# One list for the keys of each subsection; text is filled anew so that no line is longer than 80 characters.

function end_list()
{
    if (in_list)
        print ".El"
    in_list = 0
}

/^\.SH / { print ".Sh " substr($0, 5); next }

/^\.SS / {
    end_list()
    print ".Ss " substr($0, 5)
    next
}

/^\.TP/ {
    if (!in_list)
        print ".Bl -tag -width Ds"
    in_list = 1
    next
}

/^\.PP/ { print ".Pp"; next }

/^\.B / { print ".It Ic " substr($0, 4); next }

/^\./ { print; next }

{
    line = ""
    count = split($0, words, " ")
    for (i = 1; i <= count; i++) {
        if (line != "" && length(line) + length(words[i]) >= 80) {
            print line
            line = ""
        }
        line = line == "" ? words[i] : line " " words[i]
    }
    print line
}

END { end_list() }
