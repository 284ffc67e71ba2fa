package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"minsep/internal/param"
	"minsep/internal/stream"
)

// keyVariable names the file of a user's root key.
const keyVariable = "MINSEP_KEY"

// findKey returns the file of the root key: --key, or the one that MINSEP_KEY names, or that of the
// user, which is made if it is missing.
func findKey(a *app) (string, error) {
	if a.key != "" {
		return a.key, nil
	}
	if key := os.Getenv(keyVariable); key != "" {
		return key, nil
	}
	folder, err := os.UserHomeDir()
	if config := os.Getenv("XDG_CONFIG_HOME"); config != "" {
		folder, err = config, nil
	} else {
		folder = filepath.Join(folder, ".config")
	}
	if err == nil && !filepath.IsAbs(folder) {
		err = errors.New("it is no absolute path")
	}
	if err != nil {
		return "", param.Fault("key", "",
			"must be given, or named by %s: this user has no home to keep it in (%v)", keyVariable, err)
	}
	key := filepath.Join(folder, "minsep", "key")
	_, err = os.Stat(key)
	switch {
	case err == nil:
		return key, nil
	case a.dryRun && errors.Is(err, fs.ErrNotExist):
		return "", &param.Error{
			Param: "key",
			Value: key,
			Rule:  "does not exist, and a dry run makes no key: make it by minsep keygen, or name another one by --key or " + keyVariable,
		}
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(filepath.Dir(key), 0o700)
		if err == nil {
			err = stream.CreateKeyFile(key)
		}
	}
	if err != nil {
		return "", fmt.Errorf("the root key of the user: %w: give --key, or name its file by %s", err, keyVariable)
	}
	text := "made the root key " + key + ": keep it as secret as the data; without it no training of its runs can begin or go on"
	if !lasts(filepath.Dir(key)) {
		text += ". This folder seems to end with its container: copy the key to a place that lasts, and name it by --key or " + keyVariable
	}
	a.say(text)
	return key, nil
}
