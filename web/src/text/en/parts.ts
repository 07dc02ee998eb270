/** Words that every screen uses: states, verdicts, lanes, errors. */
export const parts = {
  'app.name': 'CoilClaw',

  'do.cancel': 'Cancel',
  'do.close': 'Close',
  'do.copy': 'Copy',
  'do.copied': 'Copied',
  'do.copy.code': 'Copy this code',
  'do.more': 'Show more',
  'do.retry': 'Try again',
  'do.back': 'Back',
  'do.dismiss': 'Dismiss',

  'list.others': '{n} others',

  'project.label': 'Works in',
  'project.workspace': 'The workspace',

  'name.label': 'Name',
  'name.save': 'Save',

  'load.wait': 'Loading',
  'load.stale': 'As it was {ago}',
  'load.failed': 'This could not be loaded',
  'load.gone': 'There is nothing here',
  'load.gone.more': 'It was removed, or the address is wrong. The list has what there is.',
  'load.offline': 'You are offline',
  'load.offline.more': 'This has not been opened on this device before, so there is nothing to show until the connection is back.',

  'error.OFFLINE': 'CoilClaw cannot be reached right now.',
  'error.OFFLINE.remedy': 'Check that it is running (coilclaw up) and that this device is connected.',
  'error.UNREADABLE': 'The answer could not be read.',
  'error.UNREADABLE.remedy': 'Something between this page and CoilClaw changed it. Reload the page.',
  'error.PAIRING_REFUSED': 'This code does not work: it is wrong, used, older than five minutes, or a newer one took its place.',
  'error.PAIRING_REFUSED.remedy': 'Get a new one with coilclaw pair at the terminal, or on a paired device.',
  // Their own remedies are for the model.
  'error.FILE_TOO_LARGE': 'This file is too large to be shown here.',
  'error.FILE_TOO_LARGE.remedy': 'Open it in the workspace, on the machine that CoilClaw runs on.',
  'error.IS_DIRECTORY': 'This is a folder.',
  'error.IS_DIRECTORY.remedy': 'Open the files in it.',
  'error.other': 'Something went wrong ({code}).',

  'passkey.cancelled': 'The passkey was not used.',
  'passkey.cancelled.remedy': 'Nothing was changed. Try again when you are ready.',
  'passkey.unsupported': 'This browser has no passkeys.',
  'passkey.unsupported.remedy': 'Use a browser that supports them, or another device.',
  'passkey.known': 'This device already holds a passkey for CoilClaw.',
  'passkey.known.remedy': 'Use that one; it is good for approvals too.',
  'passkey.failed': 'The passkey did not work.',
  'passkey.failed.remedy': 'Try again, or use another passkey.',

  'time.now': 'just now',
  'time.left': '{time} left',
  'time.expired': 'Expired',

  'status.PENDING': 'Waiting for you',
  'status.APPROVED': 'Approved, not done yet',
  'status.REJECTED': 'Rejected',
  'status.EXECUTED': 'Done',
  'status.FAILED': 'Failed',
  'status.UNKNOWN': 'Outcome unknown',

  'refusal.rejected': 'Rejected',
  'refusal.denied': 'Denied',
  'refusal.withdrawn': 'Withdrawn',
  'refusal.expired': 'Expired',

  'verdict.allow': 'Allowed',
  'verdict.ask': 'Asked you',
  'verdict.deny': 'Denied',

  'risk.low': 'Low risk',
  'risk.medium': 'Medium risk',
  'risk.high': 'High risk',

  'lane.A': 'Stays here',
  'lane.B': 'Leaves this machine',
  'lane.merges': 'Merges a change',
  'lane.session': 'Leaves its session',
  'lane.C': 'Changes the rules',
  'lane.C.more': 'It changes policy, configuration, credentials or the agent itself. It needs your passkey.',

  'source.chat': 'Chat',
  'source.job': 'Job',
  'source.schedule': 'Schedule',
  'source.cli': 'Terminal',
  'source.gateway': 'Panel',
  'source.sop': 'Procedure',
  'source.session': 'Coding session',
  'source.mcp': 'MCP client',

  'label.untrusted': 'Not your words',
  'label.from': 'From {source}',
  'label.unknown': 'an unknown source',
  'label.source.attachment': 'an attachment',
  'label.source.workspace': 'a file influenced by others',
  'label.source.network': 'the network',
  'label.source.mcp': 'an MCP client',

  'diff.added.one': '{n} line added',
  'diff.added.other': '{n} lines added',
  'diff.removed.one': '{n} line removed',
  'diff.removed.other': '{n} lines removed',
  'diff.rest.one': '{n} more line of the difference is not shown here.',
  'diff.rest.other': '{n} more lines of the difference are not shown here.',
  'diff.new': 'New file',
  'diff.mark.added': 'added',
  'diff.mark.removed': 'removed',

  'verbatim': 'Text, exactly as it is',

  'chart.none': 'No figures yet',
} as const;
