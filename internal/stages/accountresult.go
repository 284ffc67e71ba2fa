package stages

import (
	"cmp"
	"context"

	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/store"
)

// claimFiles returns the names of the files that vouch for the claim of a run directory: the claim's
// own, and those of the ledger.
func claimFiles(ctx context.Context, out string) []string {
	claim, _ := FindClaim(ctx, out) // whoever reads the file meets the error
	files := []string{manifest.RequestFile, ledger.ProtocolFile}
	if _, err := store.Stat(ctx, store.Join(out, manifest.LedgerFolder, ledger.UnitsFile)); err == nil {
		files = append(files, ledger.UnitsFile)
	}
	for _, replaced := range names(ctx, out, manifest.LedgerFolder, manifest.EarlierFolder) {
		for _, file := range names(ctx, out, manifest.LedgerFolder, manifest.EarlierFolder, replaced) {
			files = append(files, manifest.EarlierFolder+"/"+replaced+"/"+file)
		}
	}
	all := []string{cmp.Or(claim, manifest.CertificateFile)}
	for _, file := range files {
		all = append(all, manifest.LedgerFolder+"/"+file)
	}
	return all
}

// names returns the names in folders of a run directory, and none if they cannot be read: nothing
// that depends on them can be read then either.
func names(ctx context.Context, out string, folders ...string) (list []string) {
	entries, err := store.List(ctx, store.Join(out, folders...))
	if err != nil {
		return nil
	}
	for _, e := range entries {
		list = append(list, e.Name)
	}
	return list
}
