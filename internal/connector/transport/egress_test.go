package transport_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/fireonce/fireonce/internal/connector"
	"github.com/fireonce/fireonce/internal/connector/transport"
	"github.com/fireonce/fireonce/internal/job"
)

func TestEgressRefuses(t *testing.T) {
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
		"169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.192",
		"192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "168.63.129.16", "100.100.100.200",
		"::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0:0",
		"64:ff9b::7f00:1", "64:ff9b::a00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2002:c0a8:101::",
		"2002:a83f:8110::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001::1", "2001:db8::1", "3fff::1", "5f00::1", "100::1",
		"fc00::1", "fd00::1", "fd00:ec2::254", "fd20:ce::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1",
		"2600::5efe:7f00:1", "2600::200:5efe:a00:1", "2600::1%eth0", "4000::1", "8000::", "1::1",
	} {
		addr := netip.MustParseAddr(text)
		err := transport.NewEgress().Check(addr)
		var denied *transport.EgressError
		if !errors.As(err, &denied) || denied.Addr != addr || denied.Why == "" {
			t.Errorf("%s: %v, want a refusal", text, err)
		}
		var zero *transport.Egress
		if zero.Check(addr) == nil {
			t.Errorf("%s: a nil policy lets it through", text)
		}
	}
	if transport.NewEgress().Check(netip.Addr{}) == nil {
		t.Error("the zero address is let through")
	}
}

func TestEgressLetsPublicThrough(t *testing.T) {
	for _, text := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
		"169.253.255.255", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.167.255.255", "198.17.255.255", "198.20.0.0",
		"223.255.255.255", "::ffff:8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001::200e", "64:ff9b::808:808", "2002:808:808::1",
	} {
		if err := transport.NewEgress().Check(netip.MustParseAddr(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestEgressAllowList(t *testing.T) {
	for _, c := range []struct {
		allow, addr string
		want        bool
	}{
		{"10.1.0.0/16", "10.1.2.3", true},
		{"10.1.0.0/16", "10.2.2.3", false},
		{"10.1.0.0/16", "::ffff:10.1.2.3", true},
		{"10.1.0.0/16", "64:ff9b::a01:203", true},
		{"::ffff:10.1.0.0/112", "10.1.2.3", true},
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.0.2", false},
		{"::1", "::1", true},
		{"fd00::/8", "fd12::1", true},
		{"fd00::/8", "fd00:ec2::254", false},
		{"169.254.0.0/16", "169.254.1.1", true},
		{"169.254.0.0/16", "169.254.169.254", false},
		{"0.0.0.0/0", "169.254.169.254", false},
		{"0.0.0.0/0", "64:ff9b::a9fe:a9fe", false},
		{"169.254.169.254/32", "169.254.169.254", true},
		{"0.0.0.0/0 ::/0", "127.0.0.1", true},
		{"0.0.0.0/0,::/0", "fe80::1%eth0", false},
	} {
		allow, err := transport.ParseCIDRs(c.allow)
		if err != nil {
			t.Fatal(err)
		}
		if err := transport.NewEgress(allow...).Check(netip.MustParseAddr(c.addr)); (err == nil) != c.want {
			t.Errorf("allow %s: %s gives %v", c.allow, c.addr, err)
		}
	}
}

func TestParseCIDRs(t *testing.T) {
	got, err := transport.ParseCIDRs(" 10.0.0.0/8, 127.0.0.1\n::1/128 ,fd00::/8")
	if err != nil || len(got) != 4 || got[1] != netip.MustParsePrefix("127.0.0.1/32") {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := transport.ParseCIDRs(" , "); err != nil || len(got) != 0 {
		t.Errorf("empty: %v, %v", got, err)
	}
	for _, bad := range []string{"10.0.0.1/8", "localhost", "10.0.0.0/33", "fe80::1%eth0", "*", "10/8"} {
		if _, err := transport.ParseCIDRs(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// FuzzEgress holds that wrapping an address never turns a refusal into a leave.
func FuzzEgress(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{10, 1, 2, 3})
	f.Add([]byte{8, 8, 8, 8})
	f.Add(netip.MustParseAddr("2001:db8::1").AsSlice())
	f.Fuzz(func(t *testing.T, raw []byte) {
		addr, ok := netip.AddrFromSlice(raw)
		if !ok {
			return
		}
		e := transport.NewEgress()
		err := e.Check(addr)
		if err == nil && (addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast() || addr.IsMulticast() ||
			addr.IsUnspecified() || addr.IsInterfaceLocalMulticast() || !addr.IsGlobalUnicast()) {
			t.Fatalf("%s is let through", addr)
		}
		if !addr.Is4() || err == nil {
			return
		}
		b := addr.As4()
		mapped := netip.AddrFrom16(addr.As16())
		translated, six := [16]byte{0, 0x64, 0xff, 0x9b}, [16]byte{0x20, 0x02}
		copy(translated[12:], b[:])
		copy(six[2:], b[:])
		compatible := [16]byte{}
		copy(compatible[12:], b[:])
		for _, wrapped := range []netip.Addr{mapped, netip.AddrFrom16(translated), netip.AddrFrom16(six), netip.AddrFrom16(compatible)} {
			if e.Check(wrapped) == nil {
				t.Fatalf("%s is refused, but not as %s", addr, wrapped)
			}
		}
	})
}

// TestEgressChecksWhatTheNameResolvesTo uses a name server that says a public
// name is at a private address.
func TestEgressChecksWhatTheNameResolvesTo(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	go answerLoopback(server)
	var log bytes.Buffer
	egress := transport.NewEgress().LoggingTo(slog.New(slog.NewTextHandler(&log, nil)))
	s := transport.NewSender(transport.Config{Egress: egress, Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
		},
	}})
	// A tenant learns no more of it than of a name that there is not.
	var denied, missing *connector.Refusal
	_, err = s.Open(t.Context(), transport.Target{Scheme: "http", Host: "rebind.example.com", Port: "80"}, true)
	if !errors.As(err, &denied) || denied.Kind != job.FailTransient || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("%v, want TRANSIENT without the address", err)
	}
	_, err = s.Open(t.Context(), transport.Target{Scheme: "http", Host: "missing.example.com", Port: "80"}, true)
	if !errors.As(err, &missing) || missing.Kind != denied.Kind || missing.Msg != strings.ReplaceAll(denied.Msg, "rebind", "missing") {
		t.Errorf("%v, want as %v", err, denied)
	}
	if !strings.Contains(log.String(), `host=rebind.example.com cause="the egress policy refuses 127.0.0.1`) || strings.Contains(log.String(), "missing.example.com") {
		t.Errorf("the operator's log: %s", log.String())
	}
}

// answerLoopback says of every name that it is at 127.0.0.1, and not in IPv6; of those
// that begin with "missing." that there is none.
func answerLoopback(conn net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
			continue
		}
		q := m.Questions[0]
		m.Response, m.Additionals = true, nil
		switch {
		case strings.HasPrefix(q.Name.String(), "missing."):
			m.RCode = dnsmessage.RCodeNameError
		case q.Type == dnsmessage.TypeA:
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 0},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			}}
		}
		if packed, err := m.Pack(); err == nil {
			_, _ = conn.WriteTo(packed, from)
		}
	}
}

// TestEgressOnly refuses public addresses, too.
func TestEgressOnly(t *testing.T) {
	e := transport.NewEgressOnly(netip.MustParsePrefix("127.0.0.0/8"))
	for addr, allowed := range map[string]bool{
		"127.0.0.1": true, "::ffff:127.0.0.1": true, "::1": false, "1.1.1.1": false, "2606:4700::1111": false, "10.0.0.1": false, "169.254.169.254": false,
	} {
		if err := e.Check(netip.MustParseAddr(addr)); (err == nil) != allowed {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
