package stages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/printable"
	"minsep/internal/store"
)

// Unlisted returns the files of a folder that its index does not list: a reader that takes all
// files of a folder would take them for a part of the result.
func Unlisted(ctx context.Context, ix *manifest.Index, dir string) ([]string, error) {
	files, folders := map[string]bool{manifest.IndexName: true}, map[string]bool{}
	for _, f := range ix.Files {
		files[path.Clean(f.Name)] = true
		for in := path.Dir(path.Clean(f.Name)); in != "."; in = path.Dir(in) {
			folders[in] = true
		}
	}
	return others(ctx, store.Dir(dir), store.Base(dir), true, func(name string, folder bool) bool {
		return folder && folders[name] || !folder && files[name]
	})
}

// others returns the names that are not known in a folder of a run directory, with the folder's name.
func others(
	ctx context.Context,
	run, folder string,
	links bool,
	known func(name string, folder bool) bool,
) ([]string, error) {
	names, err := manifest.Others(ctx, store.Join(run, folder), links, known)
	for i := range names {
		names[i] = folder + "/" + names[i]
	}
	return names, err
}

// The fault of Strangers, and the way out.
const (
	NotOfRun = "not part of the run"
	MoveAway = "; move what you put there elsewhere"
)

// ledgerFile and ledgerFolder match the names in a ledger: the folder of a protocol that was set aside
// has its SHA-256, and a file in finished is a unit of samples that is not in the log yet.
var (
	ledgerFile   = regexp.MustCompile(`^(request\.json|protocol\.json|units\.log|finished/unit(-[0-9]+){4}\.json|earlier/[0-9a-f]{64}/(protocol\.json|units\.log|certificate\.json|accounting\.json))$`)
	ledgerFolder = regexp.MustCompile(`^(finished|earlier(/[0-9a-f]{64})?)$`)
)

// ownNames returns the names that minsep gives in a run directory; folders are true.
func ownNames() map[string]bool {
	names := map[string]bool{manifest.RunName: false, manifest.LockName: false}
	for _, s := range All {
		for _, name := range s.Results {
			names[name] = s.Formats != nil
		}
		names[s.Folder()] = true
	}
	return names
}

// Strangers returns the files in a run directory and its ledger that are not minsep's, and could be
// taken for a part of the run.
func Strangers(ctx context.Context, run string) ([]string, error) {
	here, err := misleading(ctx, run)
	inLedger, errLedger := others(ctx, run, manifest.LedgerFolder, false, func(name string, folder bool) bool {
		return folder && ledgerFolder.MatchString(name) || !folder && ledgerFile.MatchString(name)
	})
	return append(here, inLedger...), errors.Join(err, errLedger)
}

// misleading returns the files in the run directory itself that could be taken for a part of the
// run: data, and names that differ from minsep's only in case and an addition. Anything else may
// lie there, such as a plan or a trainer's checkpoints.
func misleading(ctx context.Context, run string) (names []string, err error) {
	entries, err := store.List(ctx, run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	known := ownNames()
	for _, e := range entries {
		// What has a name of minsep's own and is of another kind is refused by its reader.
		if _, own := known[e.Name]; !own && !strings.HasPrefix(e.Name, store.TempPrefix) && misleads(e, known) {
			names = append(names, e.Name)
		}
	}
	return names, err
}

// misleads reports whether a name that is not minsep's looks like one of its names in a run
// directory.
func misleads(e store.Entry, known map[string]bool) bool {
	lower := strings.ToLower(e.Name)
	if strings.HasSuffix(lower, ".npy") || strings.HasSuffix(lower, ".parquet") ||
		strings.HasPrefix(lower, "part-") ||
		slices.Contains(
			[]string{manifest.IndexName, "recipe.json", ledger.ProtocolFile, ledger.UnitsFile},
			lower,
		) {
		return true
	}
	for own, folder := range known {
		if lower == own || folder && e.Dir && strings.HasPrefix(lower, own) && !isLetter(lower[len(own)]) {
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }

// BrokenFiles returns the files of a folder that differ from its index. It does not say how large
// they are: the sizes of batch files tell how large the batches are.
func BrokenFiles(ctx context.Context, ix *manifest.Index, dir string) (names []string) {
	for _, f := range ix.Files {
		if f.Check(ctx, dir) != nil {
			names = append(names, store.Base(dir)+"/"+f.Name)
		}
	}
	return names
}

// Listed returns names as a subject with its verb: "a is", "a, b are" or, if they are many, "a, b
// and 7 more are". The names may be of files that somebody else has put there.
func Listed(names []string) string {
	const most = 5
	text, verb := printable.Line(strings.Join(names[:min(most, len(names))], ", ")), " are"
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	if len(names) == 1 {
		verb = " is"
	}
	return text + verb
}

// Holds returns the name of a result in a run directory, or "" if there is none. A directory that is itself a
// result has its own name. After a failed request to an object store it returns the error.
func Holds(ctx context.Context, dir string) (name string, err error) {
	if _, err := manifest.Read(ctx, dir); err == nil {
		return store.Base(dir), nil
	} else if store.Failed(err) {
		return "", err
	}
	for _, s := range All {
		for _, result := range s.Results {
			switch _, err := store.Stat(ctx, store.Join(dir, result)); {
			case store.Failed(err):
				return "", err
			case !errors.Is(err, fs.ErrNotExist):
				return result, nil
			}
		}
	}
	return "", nil
}
