package stages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/store"
)

// ClaimFiles are the possible results of an account in a run directory, of which there is one at a
// time: a certificate, or an accounting that is not proven.
var ClaimFiles = []string{manifest.CertificateFile, manifest.AccountingFile}

// ClaimFile returns the name among [ClaimFiles] for a certificate of a status.
func ClaimFile(s accounting.Status) string {
	if s == accounting.NotProven {
		return manifest.AccountingFile
	}
	return manifest.CertificateFile
}

// FindClaim returns the name among [ClaimFiles] that is in a run directory, or "" if there is none.
// The file need not be readable. After a failed request to an object store it returns the error:
// nothing is known then.
func FindClaim(ctx context.Context, run string) (string, error) {
	for _, name := range ClaimFiles {
		switch _, err := store.Stat(ctx, store.Join(run, name)); {
		case store.Failed(err):
			return "", err
		case !errors.Is(err, fs.ErrNotExist):
			return name, nil
		}
	}
	return "", nil
}

// ReadCertificate reads the claim file of a run directory. Its status says whether it certifies
// anything. The error wraps fs.ErrNotExist if there is none.
func ReadCertificate(ctx context.Context, run string) (*accounting.Certificate, error) {
	name, err := FindClaim(ctx, run)
	if err != nil {
		return nil, err
	}
	name = cmp.Or(name, manifest.CertificateFile)
	path := store.Join(run, name)
	data, err := ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	c, err := accounting.ParseCertificate(data)
	if err != nil {
		return nil, fmt.Errorf(
			"%w: %w",
			param.Fault(
				"certificate",
				path,
				"cannot be read: remove it, and `minsep account` with the same flags makes it again from the ledger",
			),
			err,
		)
	}
	if rule := Misnamed(name, c); rule != "" {
		return nil, &ParamError{Param: "certificate", Value: path, Rule: rule}
	}
	return c, nil
}

// CheckClaim returns an error if the certificate in a run directory does not follow, byte for byte,
// from the ledger beside it: one of the two was altered. It returns nil if there is no certificate
// or no ledger. It computes no bound again; inspect does.
func CheckClaim(ctx context.Context, run string) error {
	name, err := FindClaim(ctx, run)
	if err != nil || name == "" {
		return err
	}
	path := store.Join(run, name)
	data, err := ReadFile(ctx, path)
	if err != nil {
		return err
	}
	if _, err := accounting.ParseCertificate(data); err != nil {
		return err
	}
	l, err := ledger.Read(ctx, store.Join(run, manifest.LedgerFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var given []byte
	if err == nil {
		given, err = l.CertificateFile()
	}
	if err == nil && bytes.Equal(given, data) || store.Failed(err) || ctx.Err() != nil {
		return err
	}
	return &ParamError{
		Param: "certificate",
		Value: path,
		Rule:  "does not follow from the ledger beside it: one of the two was altered, or another verification was begun; `minsep inspect " + run + "` says more; remove it, and `minsep account` with the same flags makes it again",
	}
}

// Misnamed returns the fault of a certificate in a file where its status does not belong, or "".
func Misnamed(name string, c *accounting.Certificate) string {
	own := ClaimFile(c.Status)
	if own == name {
		return ""
	}
	return fmt.Sprintf("has status %q, which belongs in %s", c.Status, own)
}
