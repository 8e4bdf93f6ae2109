package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// shells are those that --completion knows.
var shells = []string{"bash", "zsh", "fish"}

// bashWords stands in for the one function of the package bash-completion that
// cobra's script cannot do without. Bash parts words at = and :, it does not.
const bashWords = `# Where the package bash-completion is missing, this does for it.
if ! declare -F _get_comp_words_by_ref >/dev/null; then
_get_comp_words_by_ref() {
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<< "$line"
    [[ $line == *[[:blank:]] ]] && words+=("")
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=
    ((cword > 0)) && prev=${words[cword - 1]}
}
fi

`

// printCompletion writes the script that makes a shell ask this program, by the
// hidden argument of asksForCompletion, how a command line may go on.
func printCompletion(cmd *cobra.Command, shell string, out io.Writer) error {
	switch shell {
	case "bash":
		if _, err := io.WriteString(out, bashWords); err != nil {
			return err
		}
		return cmd.GenBashCompletionV2(out, true)
	case "zsh":
		return cmd.GenZshCompletion(out)
	case "fish":
		return cmd.GenFishCompletion(out, true)
	}
	return UsageError(fmt.Sprintf("argument --completion: invalid choice: %s (choose from '%s')", quote(shell), strings.Join(shells, "', '")))
}

// asksForCompletion tells whether a completion script runs the program. What
// follows is an unfinished command line, which has no old manners to keep.
func asksForCompletion(args []string) bool {
	return len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// file marks a flag whose value is the name of a file.
const file = "file"

func markFiles(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		// The only error is a flag that does not exist, which the help shows.
		_ = flags.SetAnnotation(name, file, nil)
	}
}

// addCompletions tells cobra the values of options and arguments.
func (c *Command) addCompletions(cmd *cobra.Command) {
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return c.First, cobra.ShellCompDirectiveNoFileComp
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		_, isFile := flag.Annotations[file]
		if isFile || takesNoValue(flag) {
			return
		}
		values := c.Values[flag.Name]
		if flag.Name == "completion" {
			values = slices.Clone(shells)
		}
		// The only errors are unknown flags and functions set twice.
		_ = cmd.RegisterFlagCompletionFunc(flag.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	})
}
