/** Only an address of a real page is opened outside the panel: an https page, or one on this machine. */
export function opens(address: string): boolean {
  try {
    const { protocol, hostname } = new URL(address);
    return protocol === 'https:' || (protocol === 'http:' && ['127.0.0.1', 'localhost', '[::1]'].includes(hostname));
  } catch {
    return false;
  }
}
