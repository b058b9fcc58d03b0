; The Windows installer, for Inno Setup 6. build.ps1 compiles it: ISCC /DVersion=... /DBundle=... /O... coppice.iss

#ifndef Version
  #error Start build.ps1, which says which version this is
#endif
#ifndef Bundle
  #define Bundle "..\..\build\bundle\coppice"
#endif

[Setup]
; Never change this: an update finds what it updates by it.
AppId={{6B0C1B5E-3F0D-4C57-9C64-6D2F3C7A9E11}
AppName=Coppice
AppVersion={#Version}
AppVerName=Coppice {#Version}
AppPublisher=The Coppice developers
VersionInfoVersion={#Version}
DefaultDirName={autopf}\Coppice
DefaultGroupName=Coppice
DisableProgramGroupPage=yes
DisableDirPage=auto
; For this user unless they ask for all: no administrator is needed.
PrivilegesRequired=lowest
PrivilegesRequiredOverridesAllowed=dialog
ArchitecturesAllowed=x64compatible
ArchitecturesInstallIn64BitMode=x64compatible
MinVersion=10.0.17763
OutputBaseFilename=coppice-{#Version}-windows-x86_64
SetupIconFile=..\icons\coppice.ico
UninstallDisplayIcon={app}\coppice.exe
LicenseFile=..\..\LICENSE
WizardStyle=modern
Compression=lzma2/max
SolidCompression=yes
ChangesAssociations=yes
CloseApplications=yes
RestartApplications=no

[Languages]
Name: "english"; MessagesFile: "compiler:Default.isl"
Name: "german"; MessagesFile: "compiler:Languages\German.isl"

[CustomMessages]
english.Recording=Coppice recording
german.Recording=Coppice-Aufzeichnung
english.KeepData=Chats, settings, models and the engine stay on this computer, below:
german.KeepData=Chats, Einstellungen, Modelle und die Engine bleiben auf diesem Computer, unter:

[Tasks]
Name: "desktopicon"; Description: "{cm:CreateDesktopIcon}"; GroupDescription: "{cm:AdditionalIcons}"; Flags: unchecked

[InstallDelete]
; An update must not leave modules of the former version beside those of this one.
Type: filesandordirs; Name: "{app}\_internal"

[Files]
Source: "{#Bundle}\*"; DestDir: "{app}"; Flags: ignoreversion recursesubdirs createallsubdirs
Source: "..\icons\coppice-recording.ico"; DestDir: "{app}"; Flags: ignoreversion

[Icons]
Name: "{autoprograms}\Coppice"; Filename: "{app}\coppice.exe"; AppUserModelID: "org.coppice.coppice"
Name: "{autodesktop}\Coppice"; Filename: "{app}\coppice.exe"; Tasks: desktopicon; AppUserModelID: "org.coppice.coppice"

[Registry]
Root: HKA; Subkey: "Software\Classes\.coppice"; ValueType: string; ValueData: "Coppice.Recording"; Flags: uninsdeletevalue uninsdeletekeyifempty
Root: HKA; Subkey: "Software\Classes\.coppice\OpenWithProgids"; ValueType: string; ValueName: "Coppice.Recording"; Flags: uninsdeletevalue uninsdeletekeyifempty
Root: HKA; Subkey: "Software\Classes\Coppice.Recording"; ValueType: string; ValueData: "{cm:Recording}"; Flags: uninsdeletekey
Root: HKA; Subkey: "Software\Classes\Coppice.Recording\DefaultIcon"; ValueType: string; ValueData: "{app}\coppice-recording.ico"
Root: HKA; Subkey: "Software\Classes\Coppice.Recording\shell\open\command"; ValueType: string; ValueData: """{app}\coppice.exe"" ""%1"""

[Run]
Filename: "{app}\coppice.exe"; Description: "{cm:LaunchProgram,Coppice}"; Flags: nowait postinstall skipifsilent

[Code]
procedure CurUninstallStepChanged(CurUninstallStep: TUninstallStep);
begin
  if (CurUninstallStep = usPostUninstall) and not UninstallSilent then
    MsgBox(CustomMessage('KeepData') + #13#10 + ExpandConstant('{localappdata}\coppice'), mbInformation, MB_OK);
end;
