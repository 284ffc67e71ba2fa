package pipelines

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"minsep/accounting/ledger"
	"minsep/internal/store"
	"minsep/manifest"
)

// unlisted names what a folder with an index holds and the index does not list: a reader that takes all files of a folder would
// take it for a part of the result. Temporary files of a run that was killed, which every reader ignores, may be there.
func unlisted(ctx context.Context, ix *manifest.Index, dir string) (names []string, err error) {
	known := map[string]bool{manifest.IndexName: true}
	for _, f := range ix.Files {
		known[path.Clean(f.Name)] = true
	}
	folders := map[string]bool{}
	for name := range known {
		for name = path.Dir(name); name != "."; name = path.Dir(name) {
			folders[name] = true
		}
	}
	for _, folder := range append([]string{"."}, slices.Sorted(maps.Keys(folders))...) {
		entries, err := store.List(ctx, store.Join(dir, folder))
		if errors.Is(err, fs.ErrNotExist) { // a missing file is another fault
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			name := path.Join(folder, e.Name)
			if known[name] && !e.Dir || folders[name] && isFolder(ctx, dir, name, e) || strings.HasPrefix(e.Name, store.TempPrefix) {
				continue
			}
			names = append(names, store.Base(dir)+"/"+name)
		}
	}
	return names, nil
}

// isFolder reports whether an entry is a folder, or a link to one.
func isFolder(ctx context.Context, dir, name string, e store.Entry) bool {
	if e.Dir {
		return true
	}
	info, err := store.Stat(ctx, store.Join(dir, name))
	return err == nil && info.Dir
}

// unlistedPromise checks that a folder holds what its index lists and no more.
func unlistedPromise(ctx context.Context, found *Inspection, ix *manifest.Index, dir string) {
	names, err := unlisted(ctx, ix, dir)
	found.nothingElse("the folder holds nothing that its index does not list", "not in its index", names, err)
}

// nothingElse adds the promise that there are no other files. fault is what those of the names are.
func (i *Inspection) nothingElse(rule, fault string, names []string, err error) {
	switch {
	case err != nil:
		rule += ": " + err.Error()
	case names != nil:
		rule = listed(names) + " " + fault + moveAway
	}
	i.promise("unlisted files", rule, err == nil && names == nil)
}

// What is wrong with strangers, and the way out.
const (
	notOfRun = "not part of the run"
	moveAway = "; move what you put there elsewhere"
)

// replacedName is the folder of a protocol that was replaced.
var replacedName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// unlistedInLedger names what the ledger of a run directory holds beyond its own files.
func unlistedInLedger(ctx context.Context, run string) (names []string, err error) {
	book := store.Join(run, LedgerFolder)
	look := func(folder string, known func(e store.Entry) bool) error {
		entries, err := store.List(ctx, store.Join(book, folder))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for _, e := range entries {
			if !known(e) && !strings.HasPrefix(e.Name, store.TempPrefix) {
				names = append(names, path.Join(LedgerFolder, folder, e.Name))
			}
		}
		return err
	}
	var replaced []string
	files := func(list ...string) func(e store.Entry) bool {
		return func(e store.Entry) bool { return !e.Dir && slices.Contains(list, e.Name) }
	}
	own := files(requestName, ledger.ProtocolFile, ledger.UnitsFile)
	err = errors.Join(
		look(".", func(e store.Entry) bool {
			return own(e) || e.Dir && (e.Name == finishedFolder || e.Name == earlierFolder)
		}),
		look(finishedFolder, func(e store.Entry) bool { return !e.Dir && finishedName.MatchString(e.Name) }),
		look(earlierFolder, func(e store.Entry) bool {
			replaced = append(replaced, e.Name)
			return e.Dir && replacedName.MatchString(e.Name)
		}))
	for _, name := range replaced {
		if replacedName.MatchString(name) {
			err = errors.Join(err, look(path.Join(earlierFolder, name), files(ledger.ProtocolFile, ledger.UnitsFile, CertificateFile)))
		}
	}
	return names, err
}

// finishedName is a unit of samples that is not in the log yet.
var finishedName = regexp.MustCompile(`^unit-[0-9]+-[0-9]+-[0-9]+-[0-9]+\.json$`)

// ownNames are the names that minsep gives in a run directory; folders are true.
var ownNames = map[string]bool{
	manifest.RunName: false, LockName: false, CertificateFile: false,
	BoundedFolder: true, StrategyFolder: true, LedgerFolder: true, BatchesFolder: true, NoiseFolder: true,
}

// strangers names what lies in a run directory and its ledger, is not minsep's, and could be taken for a part of the run.
func strangers(ctx context.Context, run string) ([]string, error) {
	here, err := misleading(ctx, run)
	inLedger, errLedger := unlistedInLedger(ctx, run)
	return append(here, inLedger...), errors.Join(err, errLedger)
}

// misleading names what lies in the run directory itself and could be taken for a part of the run: data, and files and folders that
// have, but for case and an addition, the name of one of minsep's. Anything else may lie there, such as a plan or a trainer's checkpoints.
func misleading(ctx context.Context, run string) (names []string, err error) {
	entries, err := store.List(ctx, run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		folder, own := ownNames[e.Name]
		switch {
		case own && folder == e.Dir, strings.HasPrefix(e.Name, store.TempPrefix):
		case own: // a link to a folder, or of a kind that its reader refuses
		case misleads(e):
			names = append(names, e.Name)
		}
	}
	return names, err
}

// misleads reports whether a name that is none of minsep's looks like one in a run directory.
func misleads(e store.Entry) bool {
	lower := strings.ToLower(e.Name)
	if strings.HasSuffix(lower, ".npy") || strings.HasSuffix(lower, ".parquet") || strings.HasPrefix(lower, "part-") ||
		slices.Contains([]string{manifest.IndexName, "recipe.json", ledger.ProtocolFile, ledger.UnitsFile}, lower) {
		return true
	}
	for own, folder := range ownNames {
		if lower == own || folder && e.Dir && strings.HasPrefix(lower, own) && !isLetter(lower[len(own)]) {
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }
