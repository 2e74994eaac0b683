export default function ConnectionsPage() {
  return null;
}
