package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
)

// credentialScheme begins the name of a file that the service manager hands over, where a path may stand.
const credentialScheme = "credential:"

const (
	// credentialsKept is where the unit's LoadCredential=weir: takes them from; as root, without the service, they are read there.
	credentialsKept = "/etc/weir/credentials"
	// credentialsPrefix is before the names of what LoadCredential=weir: loads from a directory (systemd.exec(5)).
	credentialsPrefix = "weir_"
)

// credential is one that the config names.
type credential struct {
	name, path string
	pos        plan.Pos
}

// credentialName is what systemd takes for a file in a directory of credentials, less what would leave it.
var credentialName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$`)

// secretFileKind is a path, or credential:NAME. It reads the path of the credential: where the service manager put it, which is known to the process alone.
type secretFileKind struct{ stringKind }

func (secretFileKind) reads(*string) {}
func (k secretFileKind) read(r *reader, n *node, place any) {
	into := place.(*string)
	k.stringKind.read(r, n, into)
	name, named := strings.CutPrefix(*into, credentialScheme)
	if !named {
		return
	}
	if !credentialName.MatchString(name) {
		r.problems.Add(n.pos, "", "letters, digits, . _ - and no slash, such as credential:mqtt.password", "%s is no name of a credential", quote(name))
		return
	}
	*into = credentialPath(os.Getenv("CREDENTIALS_DIRECTORY"), name)
	r.credentials = append(r.credentials, credential{name, *into, n.pos})
}

// credentialPath is where a credential is, or would be: one that a drop-in loads by its own name (LoadCredential=, LoadCredentialEncrypted=), else one of the directory. dir is that of
// the service; "": this process is none.
func credentialPath(dir, name string) string {
	if dir == "" {
		return filepath.Join(credentialsKept, name)
	}
	own := filepath.Join(dir, name)
	if _, err := os.Stat(own); err == nil {
		return own
	}
	return filepath.Join(dir, credentialsPrefix+name)
}

// warnOfCredentials names those that are not there. What needs one does not connect; everything else works, so that it is no error.
func (c *Config) warnOfCredentials(all []credential) {
	for _, k := range all {
		if _, err := os.Stat(k.path); errors.Is(err, fs.ErrNotExist) {
			c.Warnings.Add(k.pos, "", "put it into "+filepath.Join(credentialsKept, k.name)+" and restart the service: a reload does not read it", "credential %s is missing", quote(k.name))
		}
	}
}
