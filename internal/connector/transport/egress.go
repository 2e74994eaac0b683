package transport

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// Rules of this file:
//   - the dialer's Control hook checks the resolved address, so that the checked
//     address is the dialled one and a name that resolves differently a moment
//     later changes nothing;
//   - IPv4 is open but for the listed ranges, IPv6 is closed but for global
//     unicast less the listed ranges: an unknown range is refused;
//   - an address that carries another one is judged by both.

// Egress is the policy for the addresses that may be dialled. The zero value
// allows public addresses only. It is safe for concurrent use.
type Egress struct {
	allow []netip.Prefix
	only  bool         // public addresses are refused, too
	log   *slog.Logger // gets what is denied to names; nil: no log
}

// NewEgress makes a policy that allows public addresses and the given ranges.
// A cloud metadata address is allowed only by a range of its own (/32, /128).
func NewEgress(allow ...netip.Prefix) *Egress {
	e := &Egress{}
	for _, p := range allow {
		e.allow = append(e.allow, unmapPrefix(p))
	}
	return e
}

// NewEgressOnly makes a policy that allows the given ranges and no other address, public ones
// neither.
func NewEgressOnly(allow ...netip.Prefix) *Egress {
	e := NewEgress(allow...)
	e.only = true
	return e
}

// ParseCIDRs reads a list of ranges ("10.1.0.0/16") and single addresses
// ("::1"), separated by commas or spaces. Empty text is an empty list.
func ParseCIDRs(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }) {
		if addr, err := netip.ParseAddr(part); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("egress: %q is neither an address nor a range", part)
		}
		if p != p.Masked() {
			return nil, fmt.Errorf("egress: %q has bits set after its prefix; did you mean %s?", part, p.Masked())
		}
		out = append(out, unmapPrefix(p))
	}
	return out, nil
}

// unmapPrefix turns a range of IPv4-mapped addresses into the IPv4 range.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// EgressError means that the policy refuses an address.
type EgressError struct {
	Addr netip.Addr
	// Why names the range, fit for a user.
	Why string
}

func (e *EgressError) Error() string {
	return fmt.Sprintf("the egress policy refuses %s (%s)", e.Addr, e.Why)
}

// Check fails with *EgressError when the address must not be dialled.
func (e *Egress) Check(addr netip.Addr) error {
	if why := e.refusal(addr, 0); why != "" {
		return &EgressError{Addr: addr, Why: why}
	}
	return nil
}

// maxEmbedding bounds how deep addresses inside addresses are looked for.
const maxEmbedding = 3

func (e *Egress) refusal(addr netip.Addr, depth int) string {
	if !addr.IsValid() {
		return "not an address"
	}
	if addr.Zone() != "" {
		return "an address with a zone"
	}
	addr = addr.Unmap()
	if slices.Contains(metadata, addr) {
		if e.allows(addr, addr.BitLen()) {
			return ""
		}
		return "cloud metadata"
	}
	if e.allows(addr, 0) {
		return ""
	}
	if e != nil && e.only {
		return "not one of the only ranges that are allowed"
	}
	if addr.Is4() {
		return inRanges(refused4, addr)
	}
	if why := inRanges(refused6, addr); why != "" {
		return why
	}
	if !globalUnicast.Contains(addr) && !nat64.Contains(addr) {
		return "not global unicast"
	}
	if depth >= maxEmbedding {
		return "too many addresses in one another"
	}
	for _, inner := range embedded(addr) {
		if why := e.refusal(inner, depth+1); why != "" {
			return "carries " + inner.String() + ", " + why
		}
	}
	return ""
}

// allows reports whether a listed range of at least minBits holds the address.
func (e *Egress) allows(addr netip.Addr, minBits int) bool {
	return e != nil && slices.ContainsFunc(e.allow, func(p netip.Prefix) bool {
		return p.Bits() >= minBits && p.Contains(addr)
	})
}

// Control is a net.Dialer.ControlContext that obeys the policy: the kernel is about to connect to
// exactly this address. It fails with *EgressError.
func (e *Egress) Control(_ context.Context, network, address string, c syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return &EgressError{Why: "network " + network}
	}
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &EgressError{Why: "not an address"}
	}
	if err := e.Check(ap.Addr()); err != nil {
		return err
	}
	return setUserTimeout(c, userTimeout)
}

type addrRange struct {
	prefix netip.Prefix
	why    string
}

func ranges(pairs ...string) []addrRange {
	out := make([]addrRange, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, addrRange{netip.MustParsePrefix(pairs[i]), pairs[i+1]})
	}
	return out
}

func inRanges(rs []addrRange, addr netip.Addr) string {
	for _, r := range rs {
		if r.prefix.Contains(addr) {
			return r.why
		}
	}
	return ""
}

// The ranges of IANA's special-purpose registries (RFC 6890 and its updates).
var (
	refused4 = ranges(
		"0.0.0.0/8", "this network (RFC 791)",
		"10.0.0.0/8", "private (RFC 1918)",
		"100.64.0.0/10", "carrier-grade NAT (RFC 6598)",
		"127.0.0.0/8", "loopback (RFC 1122)",
		"169.254.0.0/16", "link-local (RFC 3927)",
		"172.16.0.0/12", "private (RFC 1918)",
		"192.0.0.0/24", "protocol assignments (RFC 6890)",
		"192.0.2.0/24", "documentation (RFC 5737)",
		"192.88.99.0/24", "6to4 relays (RFC 7526)",
		"192.168.0.0/16", "private (RFC 1918)",
		"198.18.0.0/15", "benchmarks (RFC 2544)",
		"198.51.100.0/24", "documentation (RFC 5737)",
		"203.0.113.0/24", "documentation (RFC 5737)",
		"224.0.0.0/4", "multicast (RFC 5771)",
		"240.0.0.0/4", "reserved and broadcast (RFC 1112)",
	)
	refused6 = ranges(
		"::/128", "unspecified (RFC 4291)",
		"::1/128", "loopback (RFC 4291)",
		"::/96", "IPv4-compatible (RFC 4291)",
		"64:ff9b:1::/48", "local NAT64 (RFC 8215)",
		"100::/64", "discard (RFC 6666)",
		"2001::/23", "protocol assignments, Teredo (RFC 2928, RFC 4380)",
		"2001:db8::/32", "documentation (RFC 3849)",
		"3fff::/20", "documentation (RFC 9637)",
		"5f00::/16", "segment routing (RFC 9602)",
		"fc00::/7", "unique local (RFC 4193)",
		"fe80::/10", "link-local (RFC 4291)",
		"fec0::/10", "site-local (RFC 3879)",
		"ff00::/8", "multicast (RFC 4291)",
	)
	globalUnicast = netip.MustParsePrefix("2000::/3")     // RFC 4291
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour     = netip.MustParsePrefix("2002::/16")    // RFC 3056
	metadata      = []netip.Addr{
		netip.MustParseAddr("169.254.169.254"), // AWS, Azure, Google and others
		netip.MustParseAddr("169.254.170.2"),   // AWS ECS
		netip.MustParseAddr("169.254.170.23"),  // AWS EKS
		netip.MustParseAddr("fd00:ec2::254"),   // AWS
		netip.MustParseAddr("fd00:ec2::23"),    // AWS EKS
		netip.MustParseAddr("fd20:ce::254"),    // Google
		netip.MustParseAddr("fe80::a9fe:a9fe"), // OpenStack
		netip.MustParseAddr("168.63.129.16"),   // Azure's wire server, in a public range
		netip.MustParseAddr("100.100.100.200"), // Alibaba
		netip.MustParseAddr("192.0.0.192"),     // Oracle
	}
)

// embedded returns the IPv4 addresses that an IPv6 address carries: NAT64
// (RFC 6052), 6to4 (RFC 3056) and ISATAP (RFC 5214). Teredo, IPv4-compatible
// and IPv4-mapped addresses never come this far.
func embedded(addr netip.Addr) []netip.Addr {
	b := addr.As16()
	var out []netip.Addr
	if nat64.Contains(addr) {
		out = append(out, netip.AddrFrom4([4]byte(b[12:16])))
	}
	if sixToFour.Contains(addr) {
		out = append(out, netip.AddrFrom4([4]byte(b[2:6])))
	}
	if b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		out = append(out, netip.AddrFrom4([4]byte(b[12:16])))
	}
	return out
}
