//go:build unix

package postfix

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// services are the parts of Postfix that take mail and put it into a mailbox. There
// is none that speaks SMTP to others, so nothing leaves the machine.
const services = `
cleanup  unix n - n -   0 cleanup
qmgr     unix n - n 300 1 qmgr
rewrite  unix - - n -   - trivial-rewrite
bounce   unix - - n -   0 bounce
defer    unix - - n -   0 bounce
trace    unix - - n -   0 bounce
error    unix - - n -   - error
retry    unix - - n -   - error
virtual  unix - n n -   - virtual
anvil    unix - - n -   1 anvil
tlsmgr   unix - - n -   1 tlsmgr
postlog  unix-dgram n - n - 1 postlogd
`

// configure writes the instance's configuration.
func (s *Server) configure(t testing.TB) {
	t.Helper()
	maps := ""
	for _, name := range Mailboxes {
		maps += fmt.Sprintf(" { %s@%s = inbox/ }", name, Domain)
	}
	lines := map[string]string{
		"compatibility_level":   "3.6",
		"queue_directory":       s.dir + "/queue",
		"data_directory":        s.dir + "/data",
		"maillog_file":          s.dir + "/log",
		"maillog_file_prefixes": s.dir,
		"myhostname":            s.name,
		"inet_interfaces":       "127.0.0.1",
		"inet_protocols":        "ipv4",
		// No name server is asked, and no mail is sent on.
		"smtpd_peername_lookup":          "no",
		"disable_dns_lookups":            "yes",
		"mynetworks":                     "",
		"mydestination":                  "",
		"alias_maps":                     "",
		"alias_database":                 "",
		"local_recipient_maps":           "",
		"local_transport":                "error:nobody lives here",
		"default_transport":              "error:nothing is sent on",
		"relay_transport":                "error:nothing is sent on",
		"virtual_mailbox_domains":        Domain,
		"virtual_mailbox_maps":           "inline:{" + maps + " }",
		"virtual_mailbox_base":           s.dir + "/mail",
		"virtual_mailbox_limit":          "0",
		"virtual_uid_maps":               fmt.Sprintf("static:%d", account(t, "nobody")),
		"virtual_gid_maps":               fmt.Sprintf("static:%d", account(t, "nobody")),
		"message_size_limit":             fmt.Sprint(64 << 20),
		"smtpd_error_sleep_time":         "0",
		"smtpd_relay_restrictions":       "reject_unauth_destination",
		"smtpd_delay_reject":             "no",
		"smtpd_client_restrictions":      s.rules.restriction(),
		"smtpd_recipient_restrictions":   s.rules.restriction(),
		"smtpd_end_of_data_restrictions": s.rules.restriction(),
	}
	if s.login != nil {
		s.certify(t)
		lines["smtpd_tls_security_level"] = "encrypt"
		lines["smtpd_tls_chain_files"] = s.dir + "/tls.pem"
		lines["smtpd_sasl_auth_enable"] = "yes"
		lines["smtpd_sasl_type"] = "dovecot"
		lines["smtpd_sasl_path"] = s.login.path()
		lines["smtpd_sender_restrictions"] = "permit_sasl_authenticated, reject"
	}
	var conf strings.Builder
	for name, value := range lines {
		fmt.Fprintf(&conf, "%s = %s\n", name, value)
	}
	s.write(t, "main.cf", conf.String())
	s.write(t, "master.cf", string(s.addr)+" inet n - n - - smtpd"+services)
}

func (s *Server) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// certify borrows net/http/httptest's certificate, which is good for 127.0.0.1.
func (s *Server) certify(t testing.TB) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	key, err := x509.MarshalPKCS8PrivateKey(web.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	s.roots = x509.NewCertPool()
	s.roots.AddCert(web.Certificate())
	s.write(t, "tls.pem", string(slices.Concat(
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}),
	)))
}
